#include "base/file.h"

#include <errno.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <memory>

#include "base/error.h"

namespace planesmith {
namespace {

[[noreturn]] void fail_errno(const std::string& path, const char* what, int error) {
  std::string reason = fmt::format("{}: {}", what, strerror(error));
  if (error == ENOSPC || error == EDQUOT)
    reason += "; free some space and run the same command again to go on";
  throw Error(path, reason);
}

// Repeats a call that a signal interrupted.
template <typename Call>
auto retried(Call call) {
  auto result = call();
  while (result == -1 && errno == EINTR) result = call();
  return result;
}

constexpr std::size_t kMaxTransfer = std::size_t{1} << 30;  // Linux moves at most 2 GiB - 4 KiB per call

}  // namespace

File::File(Os& os, std::string path, int flags) : os_(&os), path_(std::move(path)) {
  fd_ = retried([&] { return os_->open(path_.c_str(), flags | O_CLOEXEC, 0666); });
  if (fd_ < 0) fail("cannot open");
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
  if (os_->fstat(fd_, &st) != 0) fail("cannot stat");
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
      throw Error(path_, fmt::format("read failed: {}", strerror(error))).at(offset + done);
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
  if (retried([&] { return os_->ftruncate(fd_, static_cast<off_t>(size)); }) != 0)
    fail("cannot set the size");
}

void File::sync() {
  if (retried([&] { return os_->fdatasync(fd_); }) != 0) fail("sync failed");
}

bool File::try_lock() {
  if (retried([&] { return os_->flock(fd_, LOCK_EX | LOCK_NB); }) == 0) return true;
  if (errno == EWOULDBLOCK) return false;
  fail("cannot lock");
}

void File::lock() {
  if (retried([&] { return os_->flock(fd_, LOCK_EX); }) != 0) fail("cannot lock");
}

bool File::try_clone(std::uint64_t offset, const File& from, std::uint64_t from_offset, std::uint64_t n) {
  if (retried([&] { return os_->clone_range(fd_, offset, from.fd_, from_offset, n); }) == 0) return true;
  switch (errno) {
    case EOPNOTSUPP:
    case ENOTTY:
    case EINVAL:  // unaligned, or the file system cannot
    case EXDEV:
    case ENOSYS:
      return false;
    default:
      fail("sharing blocks failed");
  }
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

namespace {

// Whether the name still leads to this file.
bool leads_to(Os& os, const std::string& path, const struct stat& file) {
  struct stat named {};
  return os.stat(path.c_str(), &named) == 0 && named.st_ino == file.st_ino && named.st_dev == file.st_dev;
}

}  // namespace

bool LockFile::try_take(Os& os, const std::string& path, std::vector<LockFile>& held) {
  for (;;) {
    File file = File::open_write(os, path);
    if (!file.try_lock()) return false;
    if (leads_to(os, path, file.status())) {
      held.push_back(LockFile(os, std::move(file)));
      return true;
    }
    // The previous holder removed the file between our open and our lock: what we hold is no longer in the
    // directory.
  }
}

LockFile::~LockFile() {
  // Where the directory was renamed meanwhile, a file of that name is somebody else's.
  struct stat ours {};
  if (file_.fd() >= 0 && os_->fstat(file_.fd(), &ours) == 0 && leads_to(*os_, file_.path(), ours))
    os_->unlink(file_.path().c_str());
}

bool exists(Os& os, const std::string& path) {
  struct stat st {};
  if (os.stat(path.c_str(), &st) == 0) return true;
  if (errno == ENOENT || errno == ENOTDIR) return false;
  fail_errno(path, "cannot stat", errno);
}

struct stat status(Os& os, const std::string& path) {
  struct stat st {};
  if (os.stat(path.c_str(), &st) != 0) fail_errno(path, "cannot stat", errno);
  return st;
}

void make_dirs(Os& os, const std::string& path) {
  if (path.empty() || path == "/" || path == ".") return;
  struct stat st {};
  if (os.stat(path.c_str(), &st) == 0) {
    if (!S_ISDIR(st.st_mode)) throw Error(path, "exists and is not a directory");
    return;
  }
  make_dirs(os, parent_of(path));
  if (os.mkdir(path.c_str(), 0777) != 0 && errno != EEXIST)
    fail_errno(path, "cannot make the directory", errno);
  sync_dir(os, parent_of(path));
}

void sync_dir(Os& os, const std::string& path) {
  const int fd = retried([&] { return os.open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0); });
  if (fd < 0) fail_errno(path, "cannot open the directory", errno);
  const int result = retried([&] { return os.fsync(fd); });
  const int error = errno;
  os.close(fd);
  if (result != 0) fail_errno(path, "cannot sync the directory", error);
}

void rename_file(Os& os, const std::string& from, const std::string& to) {
  if (os.rename(from.c_str(), to.c_str()) != 0)
    fail_errno(from, fmt::format("cannot rename to {}", to).c_str(), errno);
}

void link_file(Os& os, const std::string& from, const std::string& to) {
  if (os.link(from.c_str(), to.c_str()) != 0)
    fail_errno(from, fmt::format("cannot make the hard link {}", to).c_str(), errno);
}

void remove_file(Os& os, const std::string& path) {
  if (os.unlink(path.c_str()) != 0 && errno != ENOENT) fail_errno(path, "cannot remove", errno);
}

bool remove_dir_if_empty(Os& os, const std::string& path) {
  if (os.rmdir(path.c_str()) == 0) return true;
  if (errno == ENOTEMPTY || errno == EEXIST || errno == ENOENT) return false;
  fail_errno(path, "cannot remove the directory", errno);
}

std::vector<std::string> list_dir(Os& os, const std::string& path) {
  DIR* dir = os.opendir(path.c_str());
  if (dir == nullptr) fail_errno(path, "cannot read the directory", errno);
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

std::uint64_t free_space(Os& os, const std::string& path) {
  struct statvfs st {};
  if (os.statvfs(path.c_str(), &st) != 0) fail_errno(path, "cannot ask for free space", errno);
  return static_cast<std::uint64_t>(st.f_bavail) * st.f_frsize;
}

std::string real_path(const std::string& path) {
  const std::unique_ptr<char, decltype(&::free)> resolved(::realpath(path.c_str(), nullptr), &::free);
  if (!resolved) fail_errno(path, "cannot resolve", errno);
  return resolved.get();
}

std::string read_text(Os& os, const std::string& path, std::uint64_t max_bytes) {
  const File file = File::open_read(os, path);
  const std::uint64_t size = file.size();
  if (size > max_bytes)
    throw Error(path, fmt::format("has {} bytes; at most {} are accepted here", size, max_bytes));
  std::string text(size, '\0');
  file.read({reinterpret_cast<std::uint8_t*>(text.data()), text.size()}, 0);
  return text;
}

void write_atomically(Os& os, const std::string& path, std::string_view text) {
  const std::string temporary = path + ".tmp";
  try {
    File file = File::create(os, temporary);
    file.write(bytes_of(text), 0);
    file.sync();
    file.close();
    rename_file(os, temporary, path);
  } catch (...) {
    os.unlink(temporary.c_str());
    throw;
  }
  sync_dir(os, parent_of(path));
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
