// Lets several threads write into one file in memory (tmpfs) at the same time. A write call holds the file's
// lock while it allocates each 4 KiB and copies: sixteen threads reach 2.3 GB/s together into one file.
// Stores into mapped huge pages need no lock of the file: 45 GB/s on the same machine (Linux 6.18), where
// write calls into sixteen files reach 31 GB/s. Each range keeps one huge page in memory at a time; the
// address space for the file is mapped once, since mapping and unmapping wait for each other.
#pragma once

#include <atomic>
#include <cstdint>
#include <vector>

#include "base/context.h"
#include "base/file.h"
#include "base/memory_files.h"

namespace planesmith {

class SharedWriter {
 public:
  // For the bytes [begin, end) of the file, which already has that size. Falls back to write calls where huge
  // pages cannot be had (another file system, an older kernel, too little address space), for a single
  // thread, and where context.memory, divided by threads and `ranks`, is less than kMapped, because mapped
  // pages count as the program's memory.
  SharedWriter(const Context& context, const File& file, std::uint64_t begin, std::uint64_t end,
               std::uint64_t ranks);
  SharedWriter(const SharedWriter&) = delete;
  ~SharedWriter();

  // Bytes that one thread writes roughly from front to back.
  struct Range {
    std::uint64_t page = UINT64_MAX;  // number of the current huge page
    bool mapped = false;
  };
  // Errors: those of File::write().
  // Mapped pages are allocated already, so storing into them does not fail on a full file system.
  void write(File& file, Range& range, ConstBytes bytes, std::uint64_t offset);
  void finish(Range& range);

  // Bytes: a huge page for each plane of a matrix, in a cache and in packs.
  static constexpr std::uint64_t kMapped = std::uint64_t{16} << 20;

 private:
  enum class State : std::uint8_t { unknown, in_work, huge, refused };
  bool enter(File& file, std::uint64_t page, ConstBytes first, std::uint64_t offset);
  void store(const File& file, std::uint8_t* to, ConstBytes from);
  std::uint8_t* place(std::uint64_t page) const {
    return base_ + (page - first_page_) * MemoryFiles::kHugePage;
  }

  MemoryFiles& memory_;
  std::uint64_t first_page_ = 0;
  std::vector<std::atomic<State>> states_;  // of the huge pages that lie whole in the file
  std::uint8_t* base_ = nullptr;            // address of the first
};

}  // namespace planesmith
