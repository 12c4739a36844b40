// Writing into a file in memory (tmpfs) that other threads write into at the same time. A write call holds
// the file's lock while it finds memory for each 4 KiB and copies: sixteen threads get 2.3 GB/s between them,
// into one file. Huge pages that are mapped take no lock of the file: 45 GB/s on the same machine (Linux
// 6.18), where write calls into sixteen files reach 31. What is mapped is one huge page at a time of each
// range; the address space for the file is taken once, since mapping and unmapping wait for each other.
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
  // For the bytes [begin, end) of the file, which has them all. Everything is written by write calls where
  // there are no huge pages for it (another file system, an older kernel, too little address space), where
  // one thread is alone, and where context.memory, by threads and `ranks`, is less than kMapped: what is
  // mapped counts as the program's.
  SharedWriter(const Context& context, const File& file, std::uint64_t begin, std::uint64_t end,
               std::uint64_t ranks);
  SharedWriter(const SharedWriter&) = delete;
  ~SharedWriter();

  // Bytes that one thread writes from front to back, more or less.
  struct Range {
    std::uint64_t page = UINT64_MAX;  // number of the huge page at hand
    bool mapped = false;
  };
  // Errors: those of File::write(); memory that is mapped is there already, so that storing into it does not
  // fail where the file system is full.
  void write(File& file, Range& range, ConstBytes bytes, std::uint64_t offset);
  void finish(Range& range);

  // A huge page for each plane of a matrix, in a cache and in packs.
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
  std::vector<std::atomic<State>> states_;  // of the huge pages that the file has whole
  std::uint8_t* base_ = nullptr;            // of the first
};

}  // namespace planesmith
