// Loaded before a program (LD_PRELOAD), it makes the storage do less, by words in WEAK:
//   dirsync=ERRNO  fsync of a directory fails       noflock=ERRNO   no flock
//   nochmod        chmod and fchmod: EPERM          nolink=ERRNO    no hard links
//   clone=ERRNO    sharing blocks fails             nospace         0 bytes available, though blocks are free
//   ctime          ctime differs at every look      nomovedir       renaming a directory: EXDEV
//   nogrow         ftruncate cannot lengthen: EPERM
//   inode          .lock files have another inode at every look
//   stuck          reading never ends
//   stale          every tenth call that opens or looks says ESTALE, as NFS does
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>

namespace {

// The number after the word; 1: no number; 0: the word is not given.
int weak(const char* word) {
  const char* all = getenv("WEAK");
  const char* at = all == nullptr ? nullptr : strstr(all, word);
  if (at == nullptr) return 0;
  at += strlen(word);
  return *at == '=' ? atoi(at + 1) : 1;
}

template <typename Function>
Function* real(const char* name) {
  return reinterpret_cast<Function*>(dlsym(RTLD_NEXT, name));
}

int fail(int error) {
  errno = error;
  return -1;
}

int looks = 0;

bool stale() {
  static std::atomic<int> calls{0};
  return weak("stale") != 0 && ++calls % 10 == 0;
}

void shift(struct stat* st, const char* path) {
  if (weak("ctime") != 0 && S_ISREG(st->st_mode))
    st->st_ctim.tv_nsec = (st->st_ctim.tv_nsec + ++looks) % 1000000000;
  if (const std::size_t n = path == nullptr ? 0 : strlen(path); weak("inode") != 0 && n > 5)
    if (strcmp(path + n - 5, ".lock") == 0) st->st_ino += static_cast<ino_t>(++looks);
}

}  // namespace

extern "C" {

int fsync(int fd) {
  struct stat st {};
  static auto* const fstat_real = real<int(int, struct stat*)>("fstat");
  if (const int error = weak("dirsync"); error != 0 && fstat_real(fd, &st) == 0 && S_ISDIR(st.st_mode))
    return fail(error);
  return real<int(int)>("fsync")(fd);
}
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wshadow"  // there is a struct of that name, too
int flock(int fd, int operation) {
  if (const int error = weak("noflock")) return fail(error);
  return real<int(int, int)>("flock")(fd, operation);
}
#pragma GCC diagnostic pop
int chmod(const char* path, mode_t mode) {
  return weak("nochmod") != 0 ? fail(EPERM) : real<int(const char*, mode_t)>("chmod")(path, mode);
}
int fchmod(int fd, mode_t mode) {
  return weak("nochmod") != 0 ? fail(EPERM) : real<int(int, mode_t)>("fchmod")(fd, mode);
}
int ftruncate(int fd, off_t size) {
  struct stat st {};
  if (weak("nogrow") != 0 && real<int(int, struct stat*)>("fstat")(fd, &st) == 0 && size > st.st_size)
    return fail(EPERM);
  return real<int(int, off_t)>("ftruncate")(fd, size);
}
int link(const char* from, const char* to) {
  if (const int error = weak("nolink")) return fail(error);
  return real<int(const char*, const char*)>("link")(from, to);
}
int linkat(int from_dir, const char* from, int to_dir, const char* to, int flags) {
  if (const int error = weak("nolink")) return fail(error);
  return real<int(int, const char*, int, const char*, int)>("linkat")(from_dir, from, to_dir, to, flags);
}
int renameat(int from_dir, const char* from, int to_dir, const char* to) {
  struct stat st {};
  if (weak("nomovedir") != 0 &&
      real<int(int, const char*, struct stat*, int)>("fstatat")(from_dir, from, &st, 0) == 0 &&
      S_ISDIR(st.st_mode) && strstr(from, ".tmp") == nullptr)
    return fail(EXDEV);
  return real<int(int, const char*, int, const char*)>("renameat")(from_dir, from, to_dir, to);
}
int statvfs(const char* path, struct statvfs* out) {
  const int result = real<int(const char*, struct statvfs*)>("statvfs")(path, out);
  if (result == 0 && weak("nospace") != 0) out->f_bavail = 0;
  return result;
}
int stat(const char* path, struct stat* out) {
  if (stale()) return fail(ESTALE);
  const int result = real<int(const char*, struct stat*)>("stat")(path, out);
  if (result == 0) shift(out, path);
  return result;
}
int fstatat(int dir, const char* path, struct stat* out, int flags) {
  if (stale()) return fail(ESTALE);
  const int result = real<int(int, const char*, struct stat*, int)>("fstatat")(dir, path, out, flags);
  if (result == 0) shift(out, path);
  return result;
}
int fstat(int fd, struct stat* out) {
  const int result = real<int(int, struct stat*)>("fstat")(fd, out);
  if (result == 0) shift(out, nullptr);
  return result;
}
ssize_t pread(int fd, void* to, size_t n, off_t offset) {
  while (weak("stuck") != 0) sleep(1);
  return real<ssize_t(int, void*, size_t, off_t)>("pread")(fd, to, n, offset);
}
int openat(int dir, const char* path, int flags, ...) {
  va_list arguments;
  va_start(arguments, flags);
  const mode_t mode = (flags & O_CREAT) != 0 ? va_arg(arguments, mode_t) : 0;
  va_end(arguments);
  return stale() ? fail(ESTALE) : real<int(int, const char*, int, mode_t)>("openat")(dir, path, flags, mode);
}
// openat2 has no function of its own. Without it every component is opened by openat.
long syscall(long number, ...) {
  va_list arguments;
  va_start(arguments, number);
  long a[6];
  for (long& argument : a) argument = va_arg(arguments, long);
  va_end(arguments);
  if (number == SYS_openat2 && weak("stale") != 0) return fail(ENOSYS);
  return real<long(long, ...)>("syscall")(number, a[0], a[1], a[2], a[3], a[4], a[5]);
}
int ioctl(int fd, unsigned long request, ...) {
  va_list arguments;
  va_start(arguments, request);
  void* const argument = va_arg(arguments, void*);
  va_end(arguments);
  if (const int error = weak("clone"); error != 0 && (request & 0xff00) == 0x9400) return fail(error);
  return real<int(int, unsigned long, void*)>("ioctl")(fd, request, argument);
}

}  // extern "C"
