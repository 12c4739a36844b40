// The operating system with counters of bytes read and written, which a run reports.
#pragma once

#include <atomic>
#include <cstdint>

#include "base/memory_files.h"
#include "base/os.h"

namespace planesmith {

class CountedOs : public Os, public MemoryFiles {
 public:
  ssize_t pread(int fd, void* to, std::size_t n, off_t offset) override {
    return count(read_, Os::pread(fd, to, n, offset));
  }
  ssize_t read(int fd, void* to, std::size_t n) override { return count(read_, Os::read(fd, to, n)); }
  ssize_t pwrite(int fd, const void* from, std::size_t n, off_t offset) override {
    return count(written_, Os::pwrite(fd, from, n, offset));
  }
  ssize_t write(int fd, const void* from, std::size_t n) override {
    return count(written_, Os::write(fd, from, n));
  }

  int store(int fd, void* to, const void* from, std::size_t n) override {
    count(written_, static_cast<ssize_t>(n));
    return MemoryFiles::store(fd, to, from, n);
  }

  std::uint64_t bytes_read() const { return read_; }
  std::uint64_t bytes_written() const { return written_; }

 private:
  static ssize_t count(std::atomic<std::uint64_t>& bytes, ssize_t n) {
    if (n > 0) bytes.fetch_add(static_cast<std::uint64_t>(n), std::memory_order_relaxed);
    return n;
  }
  // Every thread changes them all the time: each has a cache line of its own.
  alignas(64) std::atomic<std::uint64_t> read_{0};
  alignas(64) std::atomic<std::uint64_t> written_{0};
};

}  // namespace planesmith
