#include "fault/fault_os.h"

#include <errno.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <algorithm>
#include <type_traits>

#include "base/error.h"

// One call into the operating system, as far as it matters for faults.
struct FaultOs::Call {
  enum Effect {
    looks,
    changes,
    grows,
    syncs,
    lets_go
  };  // grows: needs space; lets_go: done even after the end
  const char* name;
  std::string what;  // path or descriptor
  Effect effect = looks;
  bool interruptible = false;

  bool alters() const { return effect == changes || effect == grows || effect == syncs; }
  bool can_fail_with(int error) const {
    switch (error) {
      case EINTR:
        return interruptible;
      case ENOSPC:
      case EDQUOT:
        return effect == grows || effect == syncs;  // delayed allocation: the sync finds out
      case EROFS:
        return effect == grows || effect == changes;
      default:
        return true;
    }
  }
};

// Whether the call is to fail, with errno set.
bool FaultOs::refused(const Call& call) {
  if (dead_) {
    errno = EIO;
    return true;
  }
  ++operations_;
  if (const auto missing = fault_.missing.find(std::string_view(call.name));
      missing != fault_.missing.end()) {
    missed_ = true;
    errno = missing->second;
    return true;
  }
  if (fault_.interruptions && call.interruptible) {
    const std::string id = fmt::format("{} {}", call.name, call.what);
    if (interrupted_.insert(id).second) {
      errno = EINTR;
      return true;
    }
    interrupted_.erase(id);  // the same call again: let it through
  }
  if (fault_.kind != Fault::Kind::error || !call.can_fail_with(fault_.error)) return false;
  ++met_;
  if (met_ != fault_.nth && !(fault_.lasting && met_ > fault_.nth)) return false;
  if (!hit_) hit_at_ = fmt::format("{} {}", call.name, call.what);
  hit_ = true;
  errno = fault_.error;
  return true;
}

// After a call was done: is this the end?
void FaultOs::count_down(const Call& call) {
  if (dead_ || fault_.kind != Fault::Kind::crash || !call.alters() || ++met_ != fault_.nth) return;
  hit_ = dead_ = true;
  hit_at_ = fmt::format("{} {}", call.name, call.what);
}

template <typename Do>
auto FaultOs::guarded(const Call& call, Do&& work) -> decltype(work()) {
  using Result = decltype(work());
  const std::lock_guard<std::recursive_mutex> lock(mutex_);
  const bool refuse = refused(call);
  const int error = errno;
  if (refuse && call.effect != Call::lets_go) {
    if constexpr (std::is_pointer_v<Result>)
      return nullptr;
    else
      return -1;
  }
  const Result result = work();  // a close that reports an error has closed the file nevertheless
  if (refuse) {
    errno = error;
    if constexpr (!std::is_pointer_v<Result>) return -1;
  }
  const int after = errno;
  count_down(call);
  errno = after;
  return result;
}

namespace {

std::string fd_name(int fd) {
  return fmt::format("descriptor {}", fd);
}

bool is_directory(int fd) {
  struct stat st {};
  return ::fstat(fd, &st) == 0 && S_ISDIR(st.st_mode);
}

// A path that leads to what a name relative to a descriptor means, wherever the directory has moved to.
std::string model_path(int dir, const char* path) {
  return dir == AT_FDCWD || path[0] == '/' ? path : fmt::format("/proc/self/fd/{}/{}", dir, path);
}

// The same for messages.
std::string shown_path(int dir, const char* path) {
  if (dir == AT_FDCWD || path[0] == '/') return path;
  char real[4096];
  const ssize_t n = ::readlink(fmt::format("/proc/self/fd/{}", dir).c_str(), real, sizeof real);
  return fmt::format("{}/{}", std::string(real, n < 0 ? 0 : static_cast<std::size_t>(n)), path);
}

}  // namespace

template <typename Open>
int FaultOs::open_file(const char* call, const std::string& path, const std::string& shown, int flags,
                       Open&& open) {
  const bool writes = (flags & (O_CREAT | O_TRUNC)) != 0 || (flags & O_ACCMODE) != O_RDONLY;
  const bool alters = (flags & (O_CREAT | O_TRUNC)) != 0;
  return guarded({call, shown,
                  alters   ? Call::grows
                  : writes ? Call::changes
                           : Call::looks,
                  true},
                 [&] {
                   struct stat st {};
                   const bool makes = (flags & O_CREAT) != 0 && Os::lstat(path.c_str(), &st) != 0;
                   const int fd = open();
                   if (fd >= 0 && makes) tree_.made(path);
                   return fd;
                 });
}

int FaultOs::open(const char* path, int flags, mode_t mode) {
  return open_file("open", path, path, flags, [&] { return Os::open(path, flags, mode); });
}

int FaultOs::openat2(int dir, const char* path, int flags, mode_t mode, std::uint64_t resolve) {
  return open_file("openat2", model_path(dir, path), shown_path(dir, path), flags,
                   [&] { return Os::openat2(dir, path, flags, mode, resolve); });
}

int FaultOs::openat(int dir, const char* path, int flags, mode_t mode) {
  return open_file("openat", model_path(dir, path), shown_path(dir, path), flags,
                   [&] { return Os::openat(dir, path, flags, mode); });
}

int FaultOs::close(int fd) {
  return guarded({"close", fd_name(fd), Call::lets_go}, [&] { return Os::close(fd); });
}

ssize_t FaultOs::pread(int fd, void* to, std::size_t n, off_t offset) {
  if (fault_.short_transfers) n = std::min(n, n / 2 + 1);
  return guarded({"pread", fd_name(fd), Call::looks, true}, [&] { return Os::pread(fd, to, n, offset); });
}

ssize_t FaultOs::pwrite(int fd, const void* from, std::size_t n, off_t offset) {
  if (fault_.short_transfers) n = std::min(n, n / 2 + 1);
  return guarded({"pwrite", fd_name(fd), Call::grows, true}, [&] { return Os::pwrite(fd, from, n, offset); });
}

int FaultOs::store(int fd, void* to, const void* from, std::size_t n) {
  return guarded({"store", fd_name(fd), Call::changes}, [&] { return MemoryFiles::store(fd, to, from, n); });
}

ssize_t FaultOs::read(int fd, void* to, std::size_t n) {
  if (fault_.short_transfers) n = std::min(n, n / 2 + 1);
  return guarded({"read", fd_name(fd), Call::looks, true}, [&] { return Os::read(fd, to, n); });
}

ssize_t FaultOs::write(int fd, const void* from, std::size_t n) {
  if (fault_.short_transfers) n = std::min(n, n / 2 + 1);
  return guarded({"write", fd_name(fd), Call::grows, true}, [&] { return Os::write(fd, from, n); });
}

int FaultOs::fsync(int fd) {
  const char* call = is_directory(fd) ? "sync directory" : "fsync";
  return guarded({call, fd_name(fd), Call::syncs, true}, [&] {  // not really: the model is what counts
    tree_.synced(fd);
    return 0;
  });
}

int FaultOs::fdatasync(int fd) {
  return guarded({"fdatasync", fd_name(fd), Call::syncs, true}, [&] {
    tree_.data_synced(fd);
    return 0;
  });
}

int FaultOs::ftruncate(int fd, off_t size) {
  return guarded({"ftruncate", fd_name(fd), Call::grows, true}, [&] { return Os::ftruncate(fd, size); });
}

int FaultOs::fstat(int fd, struct stat* out) {
  return guarded({"fstat", fd_name(fd)}, [&] { return Os::fstat(fd, out); });
}
int FaultOs::stat(const char* path, struct stat* out) {
  return guarded({"stat", path}, [&] { return Os::stat(path, out); });
}
int FaultOs::lstat(const char* path, struct stat* out) {
  return guarded({"lstat", path}, [&] { return Os::lstat(path, out); });
}
int FaultOs::statvfs(const char* path, struct statvfs* out) {
  return guarded({"statvfs", path}, [&] { return Os::statvfs(path, out); });
}
int FaultOs::access(const char* path, int mode) {
  return guarded({"access", path}, [&] { return Os::access(path, mode); });
}

int FaultOs::rename(const char* from, const char* to) {
  return renameat(AT_FDCWD, from, AT_FDCWD, to);
}
int FaultOs::link(const char* from, const char* to) {
  return linkat(AT_FDCWD, from, AT_FDCWD, to);
}
int FaultOs::unlink(const char* path) {
  return unlinkat(AT_FDCWD, path, 0);
}
int FaultOs::rmdir(const char* path) {
  return unlinkat(AT_FDCWD, path, AT_REMOVEDIR);
}
int FaultOs::mkdir(const char* path, mode_t mode) {
  return mkdirat(AT_FDCWD, path, mode);
}
int FaultOs::symlink(const char* target, const char* path) {
  return symlinkat(target, AT_FDCWD, path);
}

int FaultOs::renameat(int from_dir, const char* from, int to_dir, const char* to) {
  const std::string what = fmt::format("{} to {}", shown_path(from_dir, from), shown_path(to_dir, to));
  return guarded({"rename", what, Call::grows}, [&] {
    const DurableTree::Name source = tree_.look_up(model_path(from_dir, from));
    const int result = Os::renameat(from_dir, from, to_dir, to);
    if (result == 0) tree_.renamed(source, model_path(to_dir, to));
    return result;
  });
}

int FaultOs::linkat(int from_dir, const char* from, int to_dir, const char* to) {
  const std::string what = fmt::format("{} to {}", shown_path(from_dir, from), shown_path(to_dir, to));
  return guarded({"link", what, Call::grows}, [&] {
    const int result = Os::linkat(from_dir, from, to_dir, to);
    if (result == 0) tree_.linked(tree_.look_up(model_path(from_dir, from)), model_path(to_dir, to));
    return result;
  });
}

int FaultOs::unlinkat(int dir, const char* path, int flags) {
  const char* call = (flags & AT_REMOVEDIR) != 0 ? "rmdir" : "unlink";
  return guarded({call, shown_path(dir, path), Call::changes}, [&] {
    const int result = Os::unlinkat(dir, path, flags);
    if (result == 0) tree_.removed(model_path(dir, path));
    return result;
  });
}

int FaultOs::mkdirat(int dir, const char* path, mode_t mode) {
  return guarded({"mkdir", shown_path(dir, path), Call::grows}, [&] {
    const int result = Os::mkdirat(dir, path, mode);
    if (result == 0) tree_.made(model_path(dir, path));
    return result;
  });
}

int FaultOs::symlinkat(const char* target, int dir, const char* path) {
  return guarded({"symlink", shown_path(dir, path), Call::grows}, [&] {
    const int result = Os::symlinkat(target, dir, path);
    if (result == 0) tree_.made(model_path(dir, path));
    return result;
  });
}

ssize_t FaultOs::readlinkat(int dir, const char* path, char* to, std::size_t n) {
  return guarded({"readlink", shown_path(dir, path)}, [&] { return Os::readlinkat(dir, path, to, n); });
}

int FaultOs::fstatat(int dir, const char* path, struct stat* out, int flags) {
  return guarded({"fstatat", shown_path(dir, path)}, [&] { return Os::fstatat(dir, path, out, flags); });
}

int FaultOs::fchmod(int fd, mode_t mode) {
  return guarded({"chmod", fd_name(fd), Call::changes}, [&] { return Os::fchmod(fd, mode); });
}

int FaultOs::chmod(const char* path, mode_t mode) {
  return guarded({"chmod", path, Call::changes}, [&] { return Os::chmod(path, mode); });
}

int FaultOs::flock(int fd, int operation) {
  const Call call{"flock", fd_name(fd), Call::looks, true};
  {
    const std::lock_guard<std::recursive_mutex> lock(mutex_);
    if (refused(call)) return -1;
  }
  return Os::flock(fd, operation);  // may wait for another thread, so not under the mutex
}

int FaultOs::clone_range(int to, std::uint64_t to_offset, int from, std::uint64_t from_offset,
                         std::uint64_t n) {
  return guarded({"clone", fd_name(to), Call::grows, true},
                 [&] { return Os::clone_range(to, to_offset, from, from_offset, n); });
}

off_t FaultOs::lseek(int fd, off_t offset, int whence) {
  return guarded({"lseek", fd_name(fd)}, [&] { return Os::lseek(fd, offset, whence); });
}

int FaultOs::fadvise(int fd, off_t offset, off_t n, int advice) {
  return Os::fadvise(fd, offset, n, advice);
}

DIR* FaultOs::opendir(const char* path) {
  return guarded({"opendir", path}, [&] { return Os::opendir(path); });
}

DIR* FaultOs::fdopendir(int fd) {
  return guarded({"fdopendir", fd_name(fd)}, [&] { return Os::fdopendir(fd); });
}

struct dirent* FaultOs::readdir(DIR* dir) {
  return guarded({"readdir", ""}, [&] {
    errno = 0;
    return Os::readdir(dir);
  });
}

int FaultOs::closedir(DIR* dir) {
  return guarded({"closedir", "", Call::lets_go}, [&] { return Os::closedir(dir); });
}

namespace {

// Runs the work once. Whether the fault came about.
bool run(FaultOs& os, const std::function<void(planesmith::Os&)>& work) {
  try {
    work(os);
  } catch (const planesmith::Error&) {
    if (!os.hit()) throw;
  }
  return os.hit();
}

std::uint64_t stride() {
  static const std::uint64_t value = [] {
    const char* const text = getenv("FAULT_STRIDE");
    const std::uint64_t n = text == nullptr ? 1 : strtoull(text, nullptr, 10);
    if (n > 1)
      printf("FAULT_STRIDE: the first faults and one of %llu are tried\n",
             static_cast<unsigned long long>(n));
    return std::max<std::uint64_t>(n, 1);
  }();
  return value;
}

// The fault to try after this one.
std::uint64_t following(std::uint64_t nth, std::uint64_t step) {
  constexpr std::uint64_t kAll = 16;
  return nth + (nth <= kAll * step ? step : step * stride());
}

}  // namespace

std::uint64_t fail_each(const std::string& root, int error, bool lasting,
                        const std::function<void()>& prepare,
                        const std::function<void(planesmith::Os&)>& work,
                        const std::function<void(const FaultOs&)>& after) {
  for (std::uint64_t nth = 1;; nth = following(nth, 1)) {
    prepare();
    FaultOs os(root, Fault::fail(nth, error, lasting));
    const bool hit = run(os, work);
    after(os);
    if (!hit) return nth - 1;
  }
}

std::uint64_t crash_each(const std::string& root, const std::function<void()>& prepare,
                         const std::function<void(planesmith::Os&)>& work,
                         const std::function<void(const FaultOs&)>& after,
                         const std::map<std::string, int, std::less<>>& missing, std::uint64_t step) {
  for (std::uint64_t nth = 1;; nth = following(nth, step)) {
    for (const Loss loss : kLosses) {
      prepare();
      Fault fault = Fault::crash_after(nth);
      fault.missing = missing;
      FaultOs os(root, fault);
      const bool hit = run(os, work);
      if (hit) os.lose_power(loss, static_cast<unsigned>(nth));
      after(os);
      if (!hit) return (nth - 1) / step * std::size(kLosses);
    }
  }
}
