#include "base/memory_files.h"

#include <errno.h>
#include <linux/magic.h>
#include <sys/mman.h>
#include <sys/vfs.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstring>

namespace planesmith {

MemoryFiles& MemoryFiles::of(Os& os) {
  static MemoryFiles real;
  auto* const own = dynamic_cast<MemoryFiles*>(&os);
  return own != nullptr ? *own : real;
}

void* MemoryFiles::map(int fd, off_t offset, std::size_t n) {
  struct statfs where {};
  if (::fstatfs(fd, &where) != 0 || where.f_type != TMPFS_MAGIC) return nullptr;
  void* const room =
      ::mmap(nullptr, n + kHugePage, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (room == MAP_FAILED) return nullptr;
  auto* const begin = static_cast<std::uint8_t*>(room);
  const std::size_t before = (kHugePage - reinterpret_cast<std::uintptr_t>(begin) % kHugePage) % kHugePage;
  void* const place = ::mmap(begin + before, n, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd, offset);
  if (before != 0) ::munmap(begin, before);
  ::munmap(begin + before + n, kHugePage - before);
  if (place != MAP_FAILED) return place;
  ::munmap(begin + before, n);
  return nullptr;
}

void MemoryFiles::unmap(void* at, std::size_t n) {
  ::munmap(at, n);
}

int MemoryFiles::make_huge(void* at, std::size_t n) {
#ifndef MADV_COLLAPSE
  constexpr int MADV_COLLAPSE = 25;  // Linux 6.1
#endif
  return ::madvise(at, n, MADV_COLLAPSE);
}

void MemoryFiles::forget(void* at, std::size_t n) {
  ::madvise(at, n, MADV_DONTNEED);
}

// A huge page usually takes 0.5 ms on an idle machine of sixteen cores; 70 ms was seen on two cores with ten
// times as many threads. A write call takes 0.8 ms for as many bytes where it does not wait for a lock.
bool MemoryFiles::try_huge(void* at) {
  constexpr std::int64_t kSlow = 4000;  // us
  constexpr int kPause = 200;
  const auto start = std::chrono::steady_clock::now();
  const bool made = make_huge(at, kHugePage) == 0;
  if (!made && errno == EINVAL) never_ = true;
  const std::chrono::microseconds took =
      std::chrono::duration_cast<std::chrono::microseconds>(std::chrono::steady_clock::now() - start);
  const std::int64_t usual = usual_us_ + (took.count() - usual_us_) / 8;
  usual_us_ = std::min(usual, kSlow);
  if (usual > kSlow) passed_over_ = kPause;
  return made;
}

bool MemoryFiles::pays() {
  if (never_) return false;
  if (passed_over_ <= 0) return true;
  passed_over_.fetch_sub(1);
  return false;
}

int MemoryFiles::store(int, void* to, const void* from, std::size_t n) {
  std::memcpy(to, from, n);
  return 0;
}

}  // namespace planesmith
