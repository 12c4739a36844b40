// How much memory a piece of work takes at most.
#pragma once

#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdint>
#include <stdexcept>

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
inline constexpr bool kMemoryIsMeasurable = false;  // sanitizers keep shadows and freed blocks
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer) || __has_feature(memory_sanitizer)
inline constexpr bool kMemoryIsMeasurable = false;
#else
inline constexpr bool kMemoryIsMeasurable = true;
#endif
#else
inline constexpr bool kMemoryIsMeasurable = true;
#endif

// Runs work() in a child process and returns its peak resident memory in bytes. work returns whether all was
// well and is run by the one thread that a fork keeps.
template <typename Work>
std::uint64_t peak_memory_of(Work work) {
  const pid_t child = ::fork();
  if (child < 0) throw std::runtime_error("cannot fork");
  if (child == 0) {
    bool well = false;
    try {
      well = work();
    } catch (...) {
    }
    ::_exit(well ? 0 : 1);
  }
  int status = 0;
  struct rusage usage {};
  if (::wait4(child, &status, 0, &usage) != child || status != 0)
    throw std::runtime_error("the measured work failed");
  return static_cast<std::uint64_t>(usage.ru_maxrss) * 1024;
}
