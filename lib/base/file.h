// File operations: every call either does all of what it says or throws an Error that names the file (and the
// offset). Interrupted and short transfers are retried here and nowhere else.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/os.h"

namespace planesmith {

using Bytes = std::span<std::uint8_t>;
using ConstBytes = std::span<const std::uint8_t>;

inline ConstBytes bytes_of(std::string_view text) {
  return {reinterpret_cast<const std::uint8_t*>(text.data()), text.size()};
}

// An open regular file. Movable; closes itself.
class File {
 public:
  static File open_read(Os& os, const std::string& path);   // regular files only (links are followed)
  static File create(Os& os, const std::string& path);      // new or emptied, for reading and writing
  static File open_write(Os& os, const std::string& path);  // made if absent, contents kept
  File(File&& other) noexcept;
  File& operator=(File&& other) noexcept;
  File(const File&) = delete;
  ~File();

  const std::string& path() const { return path_; }
  int fd() const { return fd_; }
  std::uint64_t size() const;
  struct stat status() const;

  // Reads up to to.size() bytes at offset; fewer only at the end of the file. Returns how many.
  std::size_t read_some(Bytes to, std::uint64_t offset) const;
  // Reads exactly to.size() bytes; a file that ends earlier is an error.
  void read(Bytes to, std::uint64_t offset) const;
  void write(ConstBytes from, std::uint64_t offset);
  void truncate(std::uint64_t size);
  void sync();              // contents and size durable (fdatasync)
  void sync_all();          // mode and times too (fsync)
  void chmod(mode_t mode);  // on a file system without modes this is noted once and skipped
  // Shares blocks with another file; false where the file system cannot (nothing changed then).
  bool try_clone(std::uint64_t offset, const File& from, std::uint64_t from_offset, std::uint64_t n);
  void will_need(std::uint64_t offset, std::uint64_t n) const;   // read ahead; advice only, never fails
  void drop_cache(std::uint64_t offset, std::uint64_t n) const;  // advice only, never fails
  // Starts writing dirty pages of the range to disk without waiting. Advice only, never fails.
  void start_writeback(std::uint64_t offset, std::uint64_t n) const;
  void close();  // reports an error that close() reports; the destructor cannot

 private:
  friend class Dir;
  File() = default;
  File(Os& os, std::string path, int flags);
  static File adopt(Os& os, std::string path, int fd);  // an open descriptor
  [[noreturn]] void fail(const char* what) const;
  Os* os_ = nullptr;
  std::string path_;
  int fd_ = -1;
};

bool exists(Os& os, const std::string& path);         // follows links; errors other than "not there" throw
struct stat status(Os& os, const std::string& path);  // follows links
void make_dirs(Os& os, const std::string& path);      // like mkdir -p, each new entry made durable
void sync_dir(Os& os, const std::string& path);       // entries made, renamed or removed in it are durable
void rename_file(Os& os, const std::string& from, const std::string& to);
void link_file(Os& os, const std::string& from, const std::string& to);  // a hard link
void remove_file(Os& os, const std::string& path);                       // a missing file is not an error
bool remove_dir_if_empty(Os& os, const std::string& path);
std::vector<std::string> list_dir(Os& os, const std::string& path);  // names, sorted, without . and ..
std::string real_path(const std::string& path);          // all links resolved; the path must exist
std::string read_link(Os& os, const std::string& path);  // the text of a symbolic link
std::string read_text(Os& os, const std::string& path, std::uint64_t max_bytes);

// Replaces path by text in one step: written to path + ".tmp", synced, renamed, directory synced. The caller
// makes sure that only one process does this to one path at a time; a left-over .tmp is replaced.
void write_atomically(Os& os, const std::string& path, std::string_view text);

// For callers that opened the directory themselves. read_entries() closes it.
std::vector<std::string> read_entries(Os& os, DIR* dir, const std::string& path);
void sync_directory(Os& os, int fd, const std::string& path);

std::string parent_of(const std::string& path);  // "." where there is no slash
std::string name_of(const std::string& path);    // last component
std::string join(std::string_view dir, std::string_view name);

}  // namespace planesmith
