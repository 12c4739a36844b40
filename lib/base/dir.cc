#include "base/dir.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <limits.h>
#include <linux/openat2.h>
#include <string.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "base/file_status.h"
#include "base/os_call.h"
#include "base/temporary.h"
#include "base/text.h"

namespace planesmith {
namespace {

constexpr int kOpenDirectory = O_RDONLY | O_DIRECTORY;
constexpr int kTries = 20;  // while other processes change the directory

// openat2(RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS) for kernels and sandboxes without it:
// opens each directory of the path in turn.
int open_by_components(Os& os, int dir, std::string_view name, int flags, mode_t mode) {
  int at = dir, fd = -1;
  for (bool last = false; !last;) {
    const std::size_t slash = name.find('/');
    last = slash == name.npos;
    const std::string component(name.substr(0, slash));
    if (!last) name.remove_prefix(slash + 1);
    const int how = last ? flags : O_PATH | O_DIRECTORY;
    fd = retried(
        [&] { return os.openat(at, component.c_str(), how | O_NOFOLLOW | O_CLOEXEC, last ? mode : 0); });
    const int error = errno;
    if (at != dir) os.close(at);
    errno = error;
    if (fd < 0) return -1;
    at = fd;
  }
  return fd;
}

int open_beneath(Os& os, int dir, const std::string& name, int flags, mode_t mode) {
  for (int i = 0; i < kTries; ++i) {
    const int fd = retried([&] {
      return os.openat2(dir, name.c_str(), flags | O_NOFOLLOW | O_CLOEXEC, mode,
                        RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS);
    });
    if (fd >= 0) return fd;
    if (errno == EAGAIN) continue;  // the kernel could not tell because of a concurrent rename
    if (errno != ENOSYS && errno != EPERM) return -1;
    break;
  }
  return open_by_components(os, dir, name, flags, mode);
}

// Opens for reading where that is allowed, because an O_PATH descriptor can be neither listed nor synced.
int open_directory(Os& os, int dir, const std::string& name, bool follow) {
  const auto open = [&](int flags) {
    return follow ? retried([&] { return os.openat(dir, name.c_str(), flags | O_CLOEXEC, 0); })
                  : open_beneath(os, dir, name, flags, 0);
  };
  const int fd = open(kOpenDirectory);
  return fd >= 0 || errno != EACCES ? fd : open(O_PATH | O_DIRECTORY);
}

[[noreturn]] void fail_to_open(const std::string& path, int error) {
  if (error == ENOTDIR) throw Error(path, "is not a directory");
  fail_errno(path, "cannot open the directory", error);
}

void check_name(const Dir& dir, std::string_view name) {
  for (std::string_view rest = name;;) {
    const std::size_t slash = rest.find('/');
    const std::string_view component = rest.substr(0, slash);
    if (component.empty() || component == "." || component == "..")
      throw Error(dir.path_of(name), "is not a plain name below its directory");
    if (slash == rest.npos) return;
    rest.remove_prefix(slash + 1);
  }
}

}  // namespace

Dir::Dir(Os& os, int fd, std::string path)
    : os_(&os), handle_(std::make_shared<const Handle>(os, fd)), path_(std::move(path)) {}

std::string Dir::path_of(std::string_view name) const {
  return path_ == "." ? std::string(name) : join(path_, name);
}

void Dir::fail(const std::string& name, std::string_view what, int error) const {
  struct stat st {};
  const auto look_at = [&](const std::string& inner) {
    return os_->fstatat(handle_->fd, inner.c_str(), &st, AT_SYMLINK_NOFOLLOW) == 0;
  };
  if (error == ELOOP || error == ENOTDIR)  // the first component that is a link
    for (std::size_t end = name.find('/');; end = name.find('/', end + 1)) {
      if (const std::string inner = name.substr(0, end); look_at(inner) && S_ISLNK(st.st_mode))
        throw Error(path_of(inner),
                    "is a symbolic link, which is not followed here; name what it leads to, or remove it");
      if (end == name.npos) break;
    }
  if (error == EXDEV && what.starts_with("cannot open"))
    throw Error(path_of(name), "leads out of its directory");
  if ((error == EACCES || error == EPERM) && look_at(name) && st.st_uid != geteuid())
    throw Error(path_of(name),
                fmt::format("{}: {}; it belongs to {}", what, strerror(error), owner_and_mode(st)));
  fail_errno(path_of(name), what, error);
}

Dir Dir::open(Os& os, const std::string& path) {
  const int fd = open_directory(os, AT_FDCWD, path, true);
  if (fd < 0) fail_to_open(path, errno);
  return Dir(os, fd, path);
}

std::optional<Dir> Dir::find(Os& os, const std::string& path) {
  const int fd = open_directory(os, AT_FDCWD, path, true);
  if (fd >= 0) return Dir(os, fd, path);
  if (errno == ENOENT) return std::nullopt;
  fail_to_open(path, errno);
}

Dir Dir::make(Os& os, const std::string& path) {
  planesmith::make_dirs(os, path);
  return open(os, path);
}

struct Dir::Place {
  Dir dir;
  std::string name;
};

Dir::Place Dir::place(const std::string& name) const {
  check_name(*this, name);
  const std::size_t slash = name.rfind('/');
  if (slash == name.npos) return {*this, name};
  return {open_dir(name.substr(0, slash)), name.substr(slash + 1)};
}

int Dir::open_at(const std::string& name, int flags, mode_t mode) const {
  check_name(*this, name);
  return open_beneath(*os_, handle_->fd, name, flags, mode);
}

Dir Dir::open_dir(const std::string& name) const {
  if (name == ".") return *this;
  check_name(*this, name);
  const int fd = open_directory(*os_, handle_->fd, name, false);
  if (fd < 0) fail(name, "cannot open the directory", errno);
  return Dir(*os_, fd, path_of(name));
}

std::optional<Dir> Dir::find_dir(const std::string& name) const {
  check_name(*this, name);
  const int fd = open_directory(*os_, handle_->fd, name, false);
  if (fd >= 0) return Dir(*os_, fd, path_of(name));
  if (errno == ENOENT) return std::nullopt;
  fail(name, "cannot open the directory", errno);
}

Dir Dir::make_dir(const std::string& name, mode_t mode) const {
  const Place at = place(name);
  if (retried([&] { return os_->mkdirat(at.dir.fd(), at.name.c_str(), mode); }) == 0)
    at.dir.sync();
  else if (errno != EEXIST)
    fail(name, "cannot make the directory", errno);
  return at.dir.open_dir(at.name);
}

Dir Dir::make_dirs(const std::string& name, mode_t mode) const {
  Dir dir = *this;
  for (std::string_view rest = name; !rest.empty();) {
    const std::size_t slash = std::min(rest.find('/'), rest.size());
    const std::string component(rest.substr(0, slash));
    const std::optional<Dir> there = dir.find_dir(component);
    dir = there ? *there : dir.make_dir(component, mode);
    rest.remove_prefix(std::min(slash + 1, rest.size()));
  }
  return dir;
}

namespace {

void require_private(const std::string& path, const struct stat& st, const Dir& parent, bool group) {
  const bool ours = st.st_uid == geteuid(), of_group = group && st.st_gid == parent.status().st_gid;
  if (group && !ours && of_group && (st.st_mode & 0070) != 0070)
    throw Error(path,
                fmt::format("belongs to {}, who did not share it with the group: let that user go on, or "
                            "run chmod -R g+rwX {}; or remove the directory",
                            owner_and_mode(st), shell_quoted(path)));
  if ((ours || of_group) && (st.st_mode & (group ? 0002 : 0022)) == 0) return;
  throw Error(path,
              fmt::format("belongs to {}; it must belong to the user who runs this{} and no other user may "
                          "write to it: remove the directory, or use another one{}",
                          owner_and_mode(st), group ? " or of the group of the directory around it" : "",
                          group ? "" : ", or share it with a group (--group-shared)"));
}

}  // namespace

Dir Dir::make_private_dir(const std::string& name, bool group) const {
  if (std::optional<Dir> there = find_private_dir(name, group)) return *there;
  Dir dir = make_dir(name, group ? 0770 : 0700);
  require_private(dir.path(), dir.status(), *this, group);
  return dir;
}

std::optional<Dir> Dir::find_private_dir(const std::string& name, bool group) const {
  // Beforehand, so that one that cannot be opened is told in the same words; what counts is what is open
  // then.
  if (const auto st = look(name); st && S_ISDIR(st->st_mode))
    require_private(path_of(name), *st, *this, group);
  std::optional<Dir> dir = find_dir(name);
  if (dir) require_private(dir->path(), dir->status(), *this, group);
  return dir;
}

File Dir::open_file(const std::string& name, int flags, mode_t mode) const {
  const int fd = open_at(name, flags, mode);
  if (fd < 0) fail(name, (flags & O_EXCL) != 0 ? "cannot make the file" : "cannot open", errno);
  return File::adopt(*os_, path_of(name), fd);
}

File Dir::require_regular(File file) const {
  const mode_t mode = file.status().st_mode;
  if (S_ISDIR(mode)) throw Error(file.path(), "is a directory; a regular file was expected");
  if (!S_ISREG(mode)) throw Error(file.path(), "is not a regular file");
  return file;
}

File Dir::open_read(const std::string& name) const {
  return require_regular(open_file(name, O_RDONLY | O_NONBLOCK, 0));
}

File Dir::open_write(const std::string& name) const {
  return require_regular(open_file(name, O_RDWR | O_NONBLOCK, 0));
}

File Dir::create_new(const std::string& name, mode_t mode) const {
  return open_file(name, O_RDWR | O_CREAT | O_EXCL, mode);
}

File Dir::open_or_create(const std::string& name, mode_t mode) const {
  return require_regular(open_file(name, O_RDWR | O_CREAT | O_NONBLOCK, mode));
}

File Dir::create_instead(const std::string& name, mode_t mode) const {
  const Place at = place(name);
  for (int i = 0; i < kTries; ++i) {
    at.dir.unlink(at.name);
    const int fd = at.dir.open_at(at.name, O_RDWR | O_CREAT | O_EXCL, mode);
    if (fd >= 0) return File::adopt(*os_, path_of(name), fd);
    if (errno != EEXIST) fail(name, "cannot make the file", errno);
  }
  throw Error(path_of(name), "is made again by another process each time it is removed");
}

std::optional<struct stat> Dir::look(const std::string& name) const {
  check_name(*this, name);
  struct stat st {};
  std::optional<Place> at;
  if (const std::size_t slash = name.rfind('/'); slash != name.npos) {
    std::optional<Dir> dir = find_dir(name.substr(0, slash));
    if (!dir) return std::nullopt;
    at = Place{std::move(*dir), name.substr(slash + 1)};
  } else {
    at = Place{*this, name};
  }
  if (retried([&] { return os_->fstatat(at->dir.fd(), at->name.c_str(), &st, AT_SYMLINK_NOFOLLOW); }) == 0)
    return st;
  if (errno == ENOENT) return std::nullopt;
  fail(name, "cannot stat", errno);
}

struct stat Dir::status(const std::string& name) const {
  const std::optional<struct stat> st = look(name);
  if (!st) fail_errno(path_of(name), "cannot stat", ENOENT);
  return *st;
}

struct stat Dir::status() const {
  struct stat st {};
  if (retried([&] { return os_->fstat(handle_->fd, &st); }) != 0) fail_errno(path_, "cannot stat", errno);
  return st;
}

bool Dir::leads_to(const std::string& name, const File& file) const {
  const std::optional<struct stat> named = look(name);
  return named && same_file(*named, file.status());
}

bool Dir::try_rename(const std::string& from, const Dir& to_dir, const std::string& to) const {
  const Place source = place(from), target = to_dir.place(to);
  if (retried([&] {
        return os_->renameat(source.dir.fd(), source.name.c_str(), target.dir.fd(), target.name.c_str());
      }) == 0)
    return true;
  if (errno == EXDEV) return false;
  fail(from, fmt::format("cannot rename to {}", to_dir.path_of(to)), errno);
}

void Dir::rename(const std::string& from, const Dir& to_dir, const std::string& to) const {
  if (!try_rename(from, to_dir, to))
    fail_errno(path_of(from), fmt::format("cannot rename to {}", to_dir.path_of(to)), EXDEV);
}

bool Dir::try_link(const std::string& from, const Dir& to_dir, const std::string& to) const {
  const Place source = place(from), target = to_dir.place(to);
  if (retried([&] {
        return os_->linkat(source.dir.fd(), source.name.c_str(), target.dir.fd(), target.name.c_str());
      }) == 0)
    return true;
  switch (const int error = errno; error) {
    case EPERM:
    case EXDEV:
    case EMLINK:
    case ENOTSUP:
    case ENOSYS:
      errno = error;  // for the message
      return false;
    default:
      fail(from, fmt::format("cannot make the hard link {}", to_dir.path_of(to)), error);
  }
}

void Dir::link(const std::string& from, const Dir& to_dir, const std::string& to) const {
  if (!try_link(from, to_dir, to))
    fail_errno(path_of(from), fmt::format("cannot make the hard link {}", to_dir.path_of(to)), errno);
}

void Dir::symlink(const std::string& target, const std::string& name) const {
  const Place at = place(name);
  if (retried([&] { return os_->symlinkat(target.c_str(), at.dir.fd(), at.name.c_str()); }) != 0)
    fail(name, "cannot make a symbolic link", errno);
}

std::string Dir::read_link(const std::string& name) const {
  const Place at = place(name);
  std::string text(PATH_MAX, '\0');  // no link is longer
  const ssize_t n =
      retried([&] { return os_->readlinkat(at.dir.fd(), at.name.c_str(), text.data(), text.size()); });
  if (n < 0) fail(name, "cannot read the link", errno);
  text.resize(static_cast<std::size_t>(n));
  return text;
}

bool Dir::unlink(const std::string& name) const {
  const Place at = place(name);
  if (retried([&] { return os_->unlinkat(at.dir.fd(), at.name.c_str(), 0); }) == 0) return true;
  if (errno == ENOENT) return false;
  fail(name, "cannot remove", errno);
}

bool Dir::rmdir(const std::string& name) const {
  const Place at = place(name);
  if (retried([&] { return os_->unlinkat(at.dir.fd(), at.name.c_str(), AT_REMOVEDIR); }) == 0) return true;
  if (errno == ENOTEMPTY || errno == EEXIST || errno == ENOENT) return false;
  fail(name, "cannot remove the directory", errno);
}

void Dir::remove_tree(const std::string& name) const {
  const std::optional<struct stat> st = look(name);
  if (!st) return;
  if (!S_ISDIR(st->st_mode)) {
    unlink(name);
    return;
  }
  const Dir dir = open_dir(name);
  for (const std::string& inner : dir.list()) dir.remove_tree(inner);
  rmdir(name);
}

void Dir::chmod(const std::string& name, mode_t mode) const {
  const Place at = place(name);
  const int fd = at.dir.open_at(at.name, O_RDONLY | O_NONBLOCK, 0);
  if (fd < 0) fail(name, "cannot open", errno);
  File::adopt(*os_, path_of(name), fd).chmod(mode);
}

std::string Dir::read_text(const std::string& name, std::uint64_t max_bytes) const {
  return text_of(open_read(name), max_bytes);
}

std::vector<std::string> Dir::list() const {
  // A new descriptor, because listing moves a descriptor's position.
  const int fd = retried([&] { return os_->openat(handle_->fd, ".", kOpenDirectory | O_CLOEXEC, 0); });
  DIR* dir = nullptr;
  if (fd < 0 || retried([&] { return (dir = os_->fdopendir(fd)) == nullptr ? -1 : 0; }) != 0) {
    const int error = errno;
    if (fd >= 0) os_->close(fd);
    fail_errno(path_, "cannot read the directory", error);
  }
  return read_entries(*os_, dir, path_);
}

void Dir::sync() const {
  sync_directory(*os_, handle_->fd, path_);
}

void Dir::write_atomically(const std::string& name, std::string_view text, mode_t mode) const {
  const Place at = place(name);
  const std::string temporary = temporary_name(at.name);
  File file = at.dir.create_instead(temporary, mode);
  try {
    file.write(bytes_of(text), 0);
    file.sync();
    if (!at.dir.leads_to(temporary, file))
      throw Error(file.path(), "was exchanged by another process while it was written");
    file.close();
    at.dir.rename(temporary, at.name);
  } catch (...) {
    os_->unlinkat(at.dir.fd(), temporary.c_str(), 0);
    throw;
  }
  at.dir.sync();
}

}  // namespace planesmith
