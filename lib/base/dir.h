// An open directory, and operations on its entries by names relative to it. No operation follows a symbolic
// link, as the last or an earlier component of a name, or leaves the directory, even while other processes
// change paths; such a link is an Error. Everything that writes into or deletes from a directory that others
// may share goes through here.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/file.h"
#include "base/os.h"

namespace planesmith {

// Cheap to copy: copies share the descriptor. Names may have several components ("v2/key/tp1-rank0"), none of
// them ".." or empty. Errors name the whole path.
class Dir {
 public:
  // For a path that the user gave: links in it are followed.
  static Dir open(Os& os, const std::string& path);
  static std::optional<Dir> find(Os& os, const std::string& path);  // none: nothing is there
  // The same, made where it is missing, each new entry durable.
  static Dir make(Os& os, const std::string& path);

  Os& os() const { return *os_; }
  int fd() const { return handle_->fd; }
  const std::string& path() const { return path_; }  // for messages, and for what works by paths only
  std::string path_of(std::string_view name) const;  // of an entry, for messages

  Dir open_dir(const std::string& name) const;                 // "." is this one
  std::optional<Dir> find_dir(const std::string& name) const;  // none: nothing is there
  // Opens the directory, made where it is missing.
  Dir make_dir(const std::string& name, mode_t mode = 0777) const;
  // The same with all directories of the path, each new entry durable.
  Dir make_dirs(const std::string& name, mode_t mode = 0777) const;
  // A directory that other users must not touch (staging, state, records): made with mode 0700, 0770 for
  // `group`, or there already. Error, naming owner and mode, where the existing one belongs to another user
  // or others may write to it; nothing is changed then.
  Dir make_private_dir(const std::string& name, bool group = false) const;
  // The same without making it; none: nothing is there.
  std::optional<Dir> find_private_dir(const std::string& name, bool group = false) const;

  File open_read(const std::string& name) const;   // regular files only
  File open_write(const std::string& name) const;  // there already, contents kept; regular files only
  File create_new(const std::string& name, mode_t mode = 0666) const;  // Error where the name is taken
  File open_or_create(const std::string& name, mode_t mode) const;     // contents kept; regular files only
  // Removes the file or link of this name first: for temporary names, which a killed run may have left.
  File create_instead(const std::string& name, mode_t mode = 0666) const;

  std::optional<struct stat> look(const std::string& name) const;  // none: nothing is there
  struct stat status(const std::string& name) const;
  struct stat status() const;  // of the directory itself
  bool exists(const std::string& name) const { return look(name).has_value(); }
  // Whether the name still leads to this open file.
  bool leads_to(const std::string& name, const File& file) const;

  void rename(const std::string& from, const std::string& to) const { rename(from, *this, to); }
  void rename(const std::string& from, const Dir& to_dir, const std::string& to) const;  // replaces a file
  bool try_rename(const std::string& from, const Dir& to_dir, const std::string& to) const;  // false: EXDEV
  void link(const std::string& from, const Dir& to_dir, const std::string& to) const;        // a hard link
  // The same; false, with errno, where the file system refuses hard links.
  bool try_link(const std::string& from, const Dir& to_dir, const std::string& to) const;
  void symlink(const std::string& target, const std::string& name) const;
  std::string read_link(const std::string& name) const;
  bool unlink(const std::string& name) const;       // a file or link; false: nothing is there
  bool rmdir(const std::string& name) const;        // false: it has entries, or nothing is there
  void remove_tree(const std::string& name) const;  // with all below; a missing entry is not an error
  // On a file system without modes this is noted once and skipped.
  void chmod(const std::string& name, mode_t mode) const;

  std::string read_text(const std::string& name, std::uint64_t max_bytes) const;
  std::vector<std::string> list() const;  // sorted, without . and ..
  void sync() const;                      // entries made, renamed or removed in it are durable

  // Replaces the file by text in one step: written to NAME.tmp, synced, renamed, directory synced. The caller
  // makes sure that only one process does this to one name at a time.
  void write_atomically(const std::string& name, std::string_view text, mode_t mode = 0666) const;

 private:
  struct Handle {
    Handle(Os& system, int descriptor) : os(system), fd(descriptor) {}
    Handle(const Handle&) = delete;
    ~Handle() { os.close(fd); }
    Os& os;
    const int fd;
  };
  struct Place;  // the directory that a name's last component stands in, and that component
  Dir(Os& os, int fd, std::string path);
  Place place(const std::string& name) const;
  int open_at(const std::string& name, int flags, mode_t mode) const;
  File open_file(const std::string& name, int flags, mode_t mode) const;
  File require_regular(File file) const;
  [[noreturn]] void fail(const std::string& name, std::string_view what, int error) const;

  Os* os_;
  std::shared_ptr<const Handle> handle_;
  std::string path_;
};

}  // namespace planesmith
