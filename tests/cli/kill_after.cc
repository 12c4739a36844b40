// For LD_PRELOAD: kills the program, as SIGKILL does, right after the KILL_AFTER-th call with which it
// changes a file or a directory. Standard streams do not count. See kill_after_each in common.sh.
#include <dlfcn.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <unistd.h>

#include <atomic>

namespace {

void count() {
  static const long last = [] {
    const char* const text = getenv("KILL_AFTER");
    return text == nullptr ? 0 : atol(text);
  }();
  static std::atomic<long> calls{0};
  if (++calls == last) kill(getpid(), SIGKILL);
}

template <typename Function>
Function* real(const char* name) {
  return reinterpret_cast<Function*>(dlsym(RTLD_NEXT, name));
}

int open_and_count(const char* name, const char* path, int flags, mode_t mode) {
  const int fd = real<int(const char*, int, ...)>(name)(path, flags, mode);
  if ((flags & (O_CREAT | O_TRUNC)) != 0) count();
  return fd;
}

// The mode is there only where a file may be made.
#define MODE_OF_OPEN             \
  mode_t mode = 0;               \
  if ((flags & O_CREAT) != 0) {  \
    va_list rest;                \
    va_start(rest, flags);       \
    mode = va_arg(rest, mode_t); \
    va_end(rest);                \
  }

}  // namespace

#define COUNTED(result, function, parameters, arguments)         \
  extern "C" result function parameters {                        \
    static const auto next = real<result parameters>(#function); \
    const result value = next arguments;                         \
    count();                                                     \
    return value;                                                \
  }

extern "C" int open(const char* path, int flags, ...) {
  MODE_OF_OPEN
  return open_and_count("open", path, flags, mode);
}
extern "C" int open64(const char* path, int flags, ...) {
  MODE_OF_OPEN
  return open_and_count("open64", path, flags, mode);
}
extern "C" int ioctl(int fd, unsigned long request, ...) {
  va_list rest;
  va_start(rest, request);
  void* const argument = va_arg(rest, void*);
  va_end(rest);
  const int result = real<int(int, unsigned long, ...)>("ioctl")(fd, request, argument);
  if (request == FICLONERANGE || request == FICLONE) count();
  return result;
}
extern "C" ssize_t write(int fd, const void* from, size_t n) {
  const ssize_t written = real<ssize_t(int, const void*, size_t)>("write")(fd, from, n);
  if (fd > STDERR_FILENO) count();
  return written;
}

COUNTED(ssize_t, pwrite, (int fd, const void* from, size_t n, off_t offset), (fd, from, n, offset))
COUNTED(ssize_t, pwrite64, (int fd, const void* from, size_t n, off64_t offset), (fd, from, n, offset))
COUNTED(int, ftruncate, (int fd, off_t size), (fd, size))
COUNTED(int, ftruncate64, (int fd, off64_t size), (fd, size))
COUNTED(int, fsync, (int fd), (fd))
COUNTED(int, fdatasync, (int fd), (fd))
COUNTED(int, syncfs, (int fd), (fd))
COUNTED(int, rename, (const char* from, const char* to), (from, to))
COUNTED(int, link, (const char* from, const char* to), (from, to))
COUNTED(int, symlink, (const char* target, const char* path), (target, path))
COUNTED(int, unlink, (const char* path), (path))
COUNTED(int, rmdir, (const char* path), (path))
COUNTED(int, mkdir, (const char* path, mode_t mode), (path, mode))
COUNTED(int, chmod, (const char* path, mode_t mode), (path, mode))
COUNTED(int, fallocate, (int fd, int mode, off_t offset, off_t n), (fd, mode, offset, n))
