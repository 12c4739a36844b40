// Files in memory (tmpfs), mapped so that several threads can store into one without waiting for its lock.
// Beside Os, since nearly everything is written by calls; an Os that watches or breaks what is written
// implements it too, and of() finds it there. A file that another process cuts short while it is mapped ends
// this one (SIGBUS), which leaves nothing unfinished under a final name.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "base/os.h"

namespace planesmith {

class MemoryFiles {
 public:
  static constexpr std::size_t kHugePage = std::size_t{2} << 20;

  virtual ~MemoryFiles() = default;
  // The os where it is one, else the real thing.
  static MemoryFiles& of(Os& os);

  // Part of a file, to be stored into, at a multiple of kHugePage. Null: another file system, or no address
  // space left. offset and n: multiples of kHugePage, inside the file.
  virtual void* map(int fd, off_t offset, std::size_t n);
  virtual void unmap(void* at, std::size_t n);
  virtual int make_huge(void* at, std::size_t n);  // MADV_COLLAPSE: of pages that are there in part
  virtual void forget(void* at, std::size_t n);    // takes none of the program's memory until touched again
  virtual int store(int fd, void* to, const void* from, std::size_t n);  // into what is mapped; -1 and errno

  // Makes one huge page. Making one waits for a moment's attention of every processor, which a machine that
  // others keep busy gives late: where it takes long, pays() is false for a while.
  bool try_huge(void* at);
  bool pays();

 private:
  std::atomic<std::int64_t> usual_us_{0};  // that a huge page takes, of late
  std::atomic<int> passed_over_{0};        // so many of the next pages do without
  std::atomic<bool> never_{false};         // this kernel makes none
};

}  // namespace planesmith
