#include "fault/fault_os.h"

#include <errno.h>
#include <fcntl.h>
#include <fmt/format.h>

#include <algorithm>
#include <type_traits>

#include "base/error.h"

// One call into the operating system, as far as faults care.
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
  const Result result = work();  // a close that reports an error has closed all the same
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

}  // namespace

int FaultOs::open(const char* path, int flags, mode_t mode) {
  const bool writes = (flags & (O_CREAT | O_TRUNC)) != 0 || (flags & O_ACCMODE) != O_RDONLY;
  const bool alters = (flags & (O_CREAT | O_TRUNC)) != 0;
  return guarded({"open", path,
                  alters   ? Call::grows
                  : writes ? Call::changes
                           : Call::looks,
                  true},
                 [&] {
                   struct stat st {};
                   const bool makes = (flags & O_CREAT) != 0 && Os::stat(path, &st) != 0;
                   const int fd = Os::open(path, flags, mode);
                   if (fd >= 0 && makes) tree_.made(path);
                   return fd;
                 });
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

ssize_t FaultOs::read(int fd, void* to, std::size_t n) {
  if (fault_.short_transfers) n = std::min(n, n / 2 + 1);
  return guarded({"read", fd_name(fd), Call::looks, true}, [&] { return Os::read(fd, to, n); });
}

ssize_t FaultOs::write(int fd, const void* from, std::size_t n) {
  if (fault_.short_transfers) n = std::min(n, n / 2 + 1);
  return guarded({"write", fd_name(fd), Call::grows, true}, [&] { return Os::write(fd, from, n); });
}

int FaultOs::fsync(int fd) {
  return guarded({"fsync", fd_name(fd), Call::syncs, true}, [&] {  // not really: the model is what counts
    tree_.synced(fd);
    return 0;
  });
}

int FaultOs::fdatasync(int fd) {
  return guarded({"fdatasync", fd_name(fd), Call::syncs, true}, [&] {
    tree_.synced(fd);
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
  return guarded({"rename", fmt::format("{} to {}", from, to), Call::grows}, [&] {
    const DurableTree::Name source = tree_.look_up(from);
    const int result = Os::rename(from, to);
    if (result == 0) tree_.renamed(source, to);
    return result;
  });
}

int FaultOs::link(const char* from, const char* to) {
  return guarded({"link", fmt::format("{} to {}", from, to), Call::grows}, [&] {
    const int result = Os::link(from, to);
    if (result == 0) tree_.linked(tree_.look_up(from), to);
    return result;
  });
}

int FaultOs::unlink(const char* path) {
  return guarded({"unlink", path, Call::changes}, [&] {
    const int result = Os::unlink(path);
    if (result == 0) tree_.removed(path);
    return result;
  });
}

int FaultOs::rmdir(const char* path) {
  return guarded({"rmdir", path, Call::changes}, [&] {
    const int result = Os::rmdir(path);
    if (result == 0) tree_.removed(path);
    return result;
  });
}

int FaultOs::mkdir(const char* path, mode_t mode) {
  return guarded({"mkdir", path, Call::grows}, [&] {
    const int result = Os::mkdir(path, mode);
    if (result == 0) tree_.made(path);
    return result;
  });
}

int FaultOs::chmod(const char* path, mode_t mode) {
  return guarded({"chmod", path, Call::changes}, [&] { return Os::chmod(path, mode); });
}

int FaultOs::symlink(const char* target, const char* path) {
  return guarded({"symlink", path, Call::grows}, [&] {
    const int result = Os::symlink(target, path);
    if (result == 0) tree_.made(path);
    return result;
  });
}

ssize_t FaultOs::readlink(const char* path, char* to, std::size_t n) {
  return guarded({"readlink", path}, [&] { return Os::readlink(path, to, n); });
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

}  // namespace

std::uint64_t fail_each(const std::string& root, int error, bool lasting,
                        const std::function<void()>& prepare,
                        const std::function<void(planesmith::Os&)>& work,
                        const std::function<void(const FaultOs&)>& after) {
  for (std::uint64_t nth = 1;; ++nth) {
    prepare();
    FaultOs os(root, Fault::fail(nth, error, lasting));
    const bool hit = run(os, work);
    after(os);
    if (!hit) return nth - 1;
  }
}

std::uint64_t crash_each(const std::string& root, const std::function<void()>& prepare,
                         const std::function<void(planesmith::Os&)>& work,
                         const std::function<void(const FaultOs&)>& after) {
  std::uint64_t faults = 0;
  for (std::uint64_t nth = 1;; ++nth) {
    for (const Loss loss : kLosses) {
      prepare();
      FaultOs os(root, Fault::crash_after(nth));
      const bool hit = run(os, work);
      if (hit) os.lose_power(loss, static_cast<unsigned>(nth));
      after(os);
      if (!hit) return faults;
      ++faults;
    }
  }
}
