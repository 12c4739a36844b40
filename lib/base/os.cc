#include "base/os.h"

#include <fcntl.h>
#include <linux/fs.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <sys/file.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace planesmith {

int Os::open(const char* path, int flags, mode_t mode) {
  return ::open(path, flags, mode);
}
int Os::close(int fd) {
  return ::close(fd);
}
ssize_t Os::pread(int fd, void* to, std::size_t n, off_t offset) {
  return ::pread(fd, to, n, offset);
}
ssize_t Os::pwrite(int fd, const void* from, std::size_t n, off_t offset) {
  return ::pwrite(fd, from, n, offset);
}
ssize_t Os::read(int fd, void* to, std::size_t n) {
  return ::read(fd, to, n);
}
ssize_t Os::write(int fd, const void* from, std::size_t n) {
  return ::write(fd, from, n);
}
int Os::fsync(int fd) {
  return ::fsync(fd);
}
int Os::fdatasync(int fd) {
  return ::fdatasync(fd);
}
int Os::ftruncate(int fd, off_t size) {
  return ::ftruncate(fd, size);
}
int Os::fstat(int fd, struct stat* out) {
  return ::fstat(fd, out);
}
int Os::stat(const char* path, struct stat* out) {
  return ::stat(path, out);
}
int Os::lstat(const char* path, struct stat* out) {
  return ::lstat(path, out);
}
int Os::statvfs(const char* path, struct statvfs* out) {
  return ::statvfs(path, out);
}
int Os::access(const char* path, int mode) {
  return ::faccessat(AT_FDCWD, path, mode, AT_EACCESS);
}
int Os::rename(const char* from, const char* to) {
  return ::rename(from, to);
}
int Os::link(const char* from, const char* to) {
  return ::link(from, to);
}
int Os::unlink(const char* path) {
  return ::unlink(path);
}
int Os::rmdir(const char* path) {
  return ::rmdir(path);
}
int Os::mkdir(const char* path, mode_t mode) {
  return ::mkdir(path, mode);
}
int Os::chmod(const char* path, mode_t mode) {
  return ::chmod(path, mode);
}
int Os::symlink(const char* target, const char* path) {
  return ::symlink(target, path);
}
int Os::fchmod(int fd, mode_t mode) {
  return ::fchmod(fd, mode);
}

int Os::openat2(int dir, const char* path, int flags, mode_t mode, std::uint64_t resolve) {
  struct open_how how {};
  how.flags = static_cast<std::uint64_t>(flags);
  how.mode = (flags & O_CREAT) != 0 ? mode : 0;
  how.resolve = resolve;
  // glibc has no function for it.
  return static_cast<int>(::syscall(SYS_openat2, dir, path, &how, sizeof how));
}

int Os::openat(int dir, const char* path, int flags, mode_t mode) {
  return ::openat(dir, path, flags, mode);
}
int Os::fstatat(int dir, const char* path, struct stat* out, int flags) {
  return ::fstatat(dir, path, out, flags);
}
int Os::mkdirat(int dir, const char* path, mode_t mode) {
  return ::mkdirat(dir, path, mode);
}
int Os::renameat(int from_dir, const char* from, int to_dir, const char* to) {
  return ::renameat(from_dir, from, to_dir, to);
}
int Os::linkat(int from_dir, const char* from, int to_dir, const char* to) {
  return ::linkat(from_dir, from, to_dir, to, 0);
}
int Os::unlinkat(int dir, const char* path, int flags) {
  return ::unlinkat(dir, path, flags);
}
int Os::symlinkat(const char* target, int dir, const char* path) {
  return ::symlinkat(target, dir, path);
}
ssize_t Os::readlinkat(int dir, const char* path, char* to, std::size_t n) {
  return ::readlinkat(dir, path, to, n);
}
int Os::flock(int fd, int operation) {
  return ::flock(fd, operation);
}

int Os::clone_range(int to, std::uint64_t to_offset, int from, std::uint64_t from_offset, std::uint64_t n) {
  struct file_clone_range range {};
  range.src_fd = from;
  range.src_offset = from_offset;
  range.src_length = n;
  range.dest_offset = to_offset;
  return ::ioctl(to, FICLONERANGE, &range);
}

off_t Os::lseek(int fd, off_t offset, int whence) {
  return ::lseek(fd, offset, whence);
}
int Os::fadvise(int fd, off_t offset, off_t n, int advice) {
  return ::posix_fadvise(fd, offset, n, advice);
}
int Os::start_writeback(int fd, off_t offset, off_t n) {
  return ::sync_file_range(fd, offset, n, SYNC_FILE_RANGE_WRITE);
}
DIR* Os::opendir(const char* path) {
  return ::opendir(path);
}
DIR* Os::fdopendir(int fd) {
  return ::fdopendir(fd);
}
struct dirent* Os::readdir(DIR* dir) {
  return ::readdir(dir);
}
int Os::closedir(DIR* dir) {
  return ::closedir(dir);
}

void Os::note_once(std::string_view matter, const std::string& line) {
  const std::lock_guard<std::mutex> lock(notes_mutex_);
  if (say_ && noted_.emplace(matter).second) say_(line);
}

void Os::pass_notes_to(std::function<void(const std::string&)> say) {
  const std::lock_guard<std::mutex> lock(notes_mutex_);
  say_ = std::move(say);
}

Os& posix() {
  static Os real;
  return real;
}

}  // namespace planesmith
