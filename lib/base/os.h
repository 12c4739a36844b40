// All operating-system calls on the files that the programs read and write go through here, so that a test
// can make each of them fail. Calls that only query the machine (/proc, realpath) do not. The calls keep
// POSIX's contracts: -1 and errno on failure, short transfers, EINTR. base/file.h is the checked layer above.
#pragma once

#include <dirent.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <mutex>
#include <set>
#include <string>
#include <string_view>

namespace planesmith {

class Os {
 public:
  virtual ~Os() = default;
  virtual int open(const char* path, int flags, mode_t mode);
  virtual int close(int fd);
  virtual ssize_t pread(int fd, void* to, std::size_t n, off_t offset);
  virtual ssize_t pwrite(int fd, const void* from, std::size_t n, off_t offset);
  virtual ssize_t read(int fd, void* to, std::size_t n);           // pipes
  virtual ssize_t write(int fd, const void* from, std::size_t n);  // pipes
  virtual int fsync(int fd);
  virtual int fdatasync(int fd);
  virtual int ftruncate(int fd, off_t size);
  virtual int fstat(int fd, struct stat* out);
  virtual int stat(const char* path, struct stat* out);
  virtual int lstat(const char* path, struct stat* out);
  virtual int statvfs(const char* path, struct statvfs* out);
  virtual int access(const char* path, int mode);  // R_OK, W_OK, X_OK for the effective user; follows links
  virtual int rename(const char* from, const char* to);
  virtual int link(const char* from, const char* to);  // a hard link; `from` is not followed
  virtual int unlink(const char* path);
  virtual int rmdir(const char* path);
  virtual int mkdir(const char* path, mode_t mode);
  virtual int chmod(const char* path, mode_t mode);
  virtual int fchmod(int fd, mode_t mode);
  virtual int symlink(const char* target, const char* path);
  // Relative to a directory's descriptor (or AT_FDCWD). openat2: `resolve` as in linux/openat2.h; ENOSYS
  // where the kernel has no such call, EPERM where a sandbox forbids it.
  virtual int openat2(int dir, const char* path, int flags, mode_t mode, std::uint64_t resolve);
  virtual int openat(int dir, const char* path, int flags, mode_t mode);
  virtual int fstatat(int dir, const char* path, struct stat* out, int flags);
  virtual int mkdirat(int dir, const char* path, mode_t mode);
  virtual int renameat(int from_dir, const char* from, int to_dir, const char* to);
  virtual int linkat(int from_dir, const char* from, int to_dir, const char* to);  // `from` is not followed
  virtual int unlinkat(int dir, const char* path, int flags);
  virtual int symlinkat(const char* target, int dir, const char* path);
  virtual ssize_t readlinkat(int dir, const char* path, char* to, std::size_t n);
  virtual int flock(int fd, int operation);
  // FICLONERANGE: shares the blocks of the source range with the target file.
  virtual int clone_range(int to, std::uint64_t to_offset, int from, std::uint64_t from_offset,
                          std::uint64_t n);
  virtual off_t lseek(int fd, off_t offset, int whence);  // SEEK_DATA, SEEK_HOLE
  virtual int fadvise(int fd, off_t offset, off_t n, int advice);
  virtual int start_writeback(int fd, off_t offset, off_t n);  // sync_file_range(WRITE), does not wait
  virtual DIR* opendir(const char* path);
  virtual DIR* fdopendir(int fd);  // takes over the descriptor on success
  virtual struct dirent* readdir(DIR* dir);
  virtual int closedir(DIR* dir);

  // Tells the user something about the storage: only the first line about each `matter` is passed on.
  // May be called from any thread.
  void note_once(std::string_view matter, const std::string& line);
  void pass_notes_to(std::function<void(const std::string&)> say);  // until then they are dropped

 private:
  std::mutex notes_mutex_;
  std::set<std::string, std::less<>> noted_;
  std::function<void(const std::string&)> say_;
};

// The real operating system.
Os& posix();

}  // namespace planesmith
