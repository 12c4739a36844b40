#include "base/file.h"

#include <errno.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <thread>

#include "base/dir.h"
#include "base/error.h"
#include "base/os_call.h"

namespace planesmith {
namespace {

constexpr std::size_t kMaxTransfer = std::size_t{1} << 30;  // Linux moves at most 2 GiB - 4 KiB per call

}  // namespace

File::File(Os& os, std::string path, int flags) : os_(&os), path_(std::move(path)) {
  fd_ = retried([&] { return os_->open(path_.c_str(), flags | O_CLOEXEC, 0666); });
  if (fd_ < 0) fail("cannot open");
}

File File::adopt(Os& os, std::string path, int fd) {
  File file;
  file.os_ = &os;
  file.path_ = std::move(path);
  file.fd_ = fd;
  return file;
}

File File::open_read(Os& os, const std::string& path) {
  // O_NONBLOCK: a FIFO in a shard's place must be an error, not a wait.
  File file(os, path, O_RDONLY | O_NONBLOCK);
  const mode_t mode = file.status().st_mode;
  if (S_ISDIR(mode)) throw Error(path, "is a directory; a regular file was expected");
  if (!S_ISREG(mode)) throw Error(path, "is not a regular file");
  return file;
}

File File::create(Os& os, const std::string& path) {
  return File(os, path, O_RDWR | O_CREAT | O_TRUNC | O_NOFOLLOW);
}
File File::open_write(Os& os, const std::string& path) {
  return File(os, path, O_RDWR | O_CREAT);
}

File::File(File&& other) noexcept : os_(other.os_), path_(std::move(other.path_)), fd_(other.fd_) {
  other.fd_ = -1;
}

File& File::operator=(File&& other) noexcept {
  std::swap(os_, other.os_);
  std::swap(path_, other.path_);
  std::swap(fd_, other.fd_);
  return *this;
}

File::~File() {
  if (fd_ >= 0) os_->close(fd_);
}

void File::close() {
  const int fd = fd_;
  fd_ = -1;
  // The descriptor is gone even where close() is interrupted, so this is not retried.
  if (fd >= 0 && os_->close(fd) != 0 && errno != EINTR) fail("close failed");
}

void File::fail(const char* what) const {
  fail_errno(path_, what, errno);
}

struct stat File::status() const {
  struct stat st {};
  if (retried([&] { return os_->fstat(fd_, &st); }) != 0) fail("cannot stat");
  return st;
}

std::uint64_t File::size() const {
  return static_cast<std::uint64_t>(status().st_size);
}

std::size_t File::read_some(Bytes to, std::uint64_t offset) const {
  std::size_t done = 0;
  while (done < to.size()) {
    const ssize_t n = retried([&] {
      return os_->pread(fd_, to.data() + done, std::min(to.size() - done, kMaxTransfer),
                        static_cast<off_t>(offset + done));
    });
    if (n < 0) {
      const int error = errno;
      throw Error(path_, fmt::format("read failed: {}", strerror(error))).at(offset + done).because(error);
    }
    if (n == 0) break;
    done += static_cast<std::size_t>(n);
  }
  return done;
}

void File::read(Bytes to, std::uint64_t offset) const {
  const std::size_t n = read_some(to, offset);
  if (n < to.size())
    throw Error(path_,
                fmt::format("file ends here, {} bytes more were expected; was it cut short?", to.size() - n))
        .at(offset + n);
}

void File::write(ConstBytes from, std::uint64_t offset) {
  std::size_t done = 0;
  while (done < from.size()) {
    const ssize_t n = retried([&] {
      return os_->pwrite(fd_, from.data() + done, std::min(from.size() - done, kMaxTransfer),
                         static_cast<off_t>(offset + done));
    });
    if (n < 0) fail("write failed");
    if (n == 0) throw Error(path_, "write made no progress").at(offset + done);
    done += static_cast<std::size_t>(n);
  }
}

void File::truncate(std::uint64_t size) {
  if (retried([&] { return os_->ftruncate(fd_, static_cast<off_t>(size)); }) == 0) return;
  const int error = errno;
  // Some file systems cannot lengthen a file by this call (EPERM in ftruncate(2)), but by writing.
  const bool longer = error == EPERM && size > this->size();
  if (!longer) fail_errno(path_, "cannot set the size", error);
  constexpr std::uint8_t kZero = 0;
  write({&kZero, 1}, size - 1);
}

void File::sync() {
  if (retried([&] { return os_->fdatasync(fd_); }) != 0) fail("sync failed");
}

void File::sync_all() {
  if (retried([&] { return os_->fsync(fd_); }) != 0) fail("sync failed");
}

void File::chmod(mode_t mode) {
  if (retried([&] { return os_->fchmod(fd_, mode); }) == 0) return;
  switch (errno) {
    case EPERM:
    case ENOTSUP:
    case ENOSYS:
    case EINVAL:
      os_->note_once("modes",
                     fmt::format("{}: the mode cannot be set here ({}); files keep the mode that the "
                                 "file system gives them",
                                 path_, strerror(errno)));
      return;
    default:
      fail("cannot set the mode");
  }
}

bool File::try_clone(std::uint64_t offset, const File& from, std::uint64_t from_offset, std::uint64_t n) {
  // ZFS fails with EAGAIN while blocks of the source are not on disk yet.
  for (int tries = 0;; ++tries) {
    if (retried([&] { return os_->clone_range(fd_, offset, from.fd_, from_offset, n); }) == 0) return true;
    if (errno != EAGAIN || tries == 5) break;
    std::this_thread::sleep_for(std::chrono::milliseconds(20 << tries));
  }
  if (errno == ENOSPC || errno == EDQUOT || errno == EIO) fail("sharing blocks failed");
  return false;  // unsupported, which file systems report by different errors
}

void File::will_need(std::uint64_t offset, std::uint64_t n) const {
  os_->fadvise(fd_, static_cast<off_t>(offset), static_cast<off_t>(n), POSIX_FADV_WILLNEED);
}

void File::drop_cache(std::uint64_t offset, std::uint64_t n) const {
  os_->fadvise(fd_, static_cast<off_t>(offset), static_cast<off_t>(n), POSIX_FADV_DONTNEED);
}

void File::start_writeback(std::uint64_t offset, std::uint64_t n) const {
  os_->start_writeback(fd_, static_cast<off_t>(offset), static_cast<off_t>(n));
}

bool exists(Os& os, const std::string& path) {
  struct stat st {};
  if (retried([&] { return os.stat(path.c_str(), &st); }) == 0) return true;
  if (errno == ENOENT || errno == ENOTDIR) return false;
  fail_errno(path, "cannot stat", errno);
}

struct stat status(Os& os, const std::string& path) {
  struct stat st {};
  if (retried([&] { return os.stat(path.c_str(), &st); }) != 0) fail_errno(path, "cannot stat", errno);
  return st;
}

void make_dirs(Os& os, const std::string& path) {
  if (path.empty() || path == "/" || path == ".") return;
  struct stat st {};
  if (retried([&] { return os.stat(path.c_str(), &st); }) == 0) {
    if (!S_ISDIR(st.st_mode)) throw Error(path, "exists and is not a directory");
    return;
  }
  make_dirs(os, parent_of(path));
  if (retried([&] { return os.mkdir(path.c_str(), 0777); }) != 0 && errno != EEXIST)
    fail_errno(path, "cannot make the directory", errno);
  sync_dir(os, parent_of(path));
}

void sync_dir(Os& os, const std::string& path) {
  const int fd = retried([&] { return os.open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0); });
  if (fd < 0) fail_errno(path, "cannot open the directory", errno);
  try {
    sync_directory(os, fd, path);
  } catch (...) {
    os.close(fd);
    throw;
  }
  os.close(fd);
}

void sync_directory(Os& os, int fd, const std::string& path) {
  if (retried([&] { return os.fsync(fd); }) == 0) return;
  if (!cannot_sync_directories(errno)) fail_errno(path, "cannot sync the directory", errno);
  os.note_once(
      "directory sync",
      fmt::format("{}: this file system cannot sync directories ({}); after a power failure the last "
                  "files may be missing",
                  path, strerror(errno)));
}

void rename_file(Os& os, const std::string& from, const std::string& to) {
  if (retried([&] { return os.rename(from.c_str(), to.c_str()); }) != 0)
    fail_errno(from, fmt::format("cannot rename to {}", to).c_str(), errno);
}

void link_file(Os& os, const std::string& from, const std::string& to) {
  if (retried([&] { return os.link(from.c_str(), to.c_str()); }) != 0)
    fail_errno(from, fmt::format("cannot make the hard link {}", to).c_str(), errno);
}

void remove_file(Os& os, const std::string& path) {
  if (retried([&] { return os.unlink(path.c_str()); }) != 0 && errno != ENOENT)
    fail_errno(path, "cannot remove", errno);
}

bool remove_dir_if_empty(Os& os, const std::string& path) {
  if (retried([&] { return os.rmdir(path.c_str()); }) == 0) return true;
  if (errno == ENOTEMPTY || errno == EEXIST || errno == ENOENT) return false;
  fail_errno(path, "cannot remove the directory", errno);
}

std::vector<std::string> list_dir(Os& os, const std::string& path) {
  DIR* dir = nullptr;
  if (retried([&] { return (dir = os.opendir(path.c_str())) == nullptr ? -1 : 0; }) != 0)
    fail_errno(path, "cannot read the directory", errno);
  return read_entries(os, dir, path);
}

std::vector<std::string> read_entries(Os& os, DIR* dir, const std::string& path) {
  std::vector<std::string> names;
  errno = 0;
  while (const dirent* entry = os.readdir(dir)) {
    const std::string_view name = entry->d_name;
    if (name != "." && name != "..") names.emplace_back(name);
    errno = 0;
  }
  const int error = errno;
  os.closedir(dir);
  if (error != 0) fail_errno(path, "cannot read the directory", error);
  std::sort(names.begin(), names.end());
  return names;
}

std::string real_path(const std::string& path) {
  const std::unique_ptr<char, decltype(&::free)> resolved(::realpath(path.c_str(), nullptr), &::free);
  if (!resolved) fail_errno(path, "cannot resolve", errno);
  return resolved.get();
}

std::string read_link(Os& os, const std::string& path) {
  std::string text(PATH_MAX, '\0');  // no link is longer
  const ssize_t n = retried([&] { return os.readlinkat(AT_FDCWD, path.c_str(), text.data(), text.size()); });
  if (n < 0) fail_errno(path, "cannot read the link", errno);
  text.resize(static_cast<std::size_t>(n));
  return text;
}

std::string read_text(Os& os, const std::string& path, std::uint64_t max_bytes) {
  return text_of(File::open_read(os, path), max_bytes);
}

std::string text_of(const File& file, std::uint64_t max_bytes) {
  const std::uint64_t size = file.size();
  if (size > max_bytes)
    throw Error(file.path(), fmt::format("has {} bytes; at most {} are accepted here", size, max_bytes));
  std::string text(size, '\0');
  file.read({reinterpret_cast<std::uint8_t*>(text.data()), text.size()}, 0);
  return text;
}

void write_atomically(Os& os, const std::string& path, std::string_view text) {
  Dir::open(os, parent_of(path)).write_atomically(name_of(path), text);
}

std::string parent_of(const std::string& path) {
  const std::size_t slash = path.find_last_of('/');
  if (slash == std::string::npos) return ".";
  return slash == 0 ? "/" : path.substr(0, slash);
}

std::string name_of(const std::string& path) {
  return path.substr(path.find_last_of('/') + 1);
}

std::string join(std::string_view dir, std::string_view name) {
  if (dir.empty()) return std::string(name);
  std::string out(dir);
  if (out.back() != '/') out += '/';
  return out += name;
}

}  // namespace planesmith
