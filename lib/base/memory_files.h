// Files in memory (tmpfs), mapped so that several threads can store into one without waiting for its lock.
// Not a part of Os, since nearly everything is written by calls; an Os of a test that watches or breaks
// writes also implements this class, and of() finds it there. If another process truncates a mapped file,
// this process ends by SIGBUS, which leaves nothing unfinished under a final name.
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
  // `os` itself where it is a MemoryFiles, else the real one.
  static MemoryFiles& of(Os& os);

  // Maps a part of a file for writing, at an address that is a multiple of kHugePage. Null: not tmpfs, or no
  // address space left. offset and n: multiples of kHugePage, inside the file.
  virtual void* map(int fd, off_t offset, std::size_t n);
  virtual void unmap(void* at, std::size_t n);
  virtual int make_huge(void* at, std::size_t n);  // MADV_COLLAPSE; some pages must be there
  virtual void forget(void* at, std::size_t n);    // not this process's memory until touched again
  // `to`: in a mapped part. -1 and errno on failure.
  virtual int store(int fd, void* to, const void* from, std::size_t n);

  // Makes one huge page; false where that fails. The kernel interrupts every processor for it, which takes
  // long on a busy machine: pays() is then false for a while.
  bool try_huge(void* at);
  bool pays();

 private:
  std::atomic<std::int64_t> usual_us_{0};  // moving average of what a huge page takes
  std::atomic<int> passed_over_{0};        // how many of the next pages are not made huge
  std::atomic<bool> never_{false};         // this kernel makes none
};

}  // namespace planesmith
