#include "chunks/target.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "base/file_contents.h"
#include "base/machine.h"

namespace planesmith::chunks {
namespace {

constexpr const char* kLock = "lock";

std::vector<LockFile> locked(const Dir& staging, bool group) {
  std::vector<LockFile> lock;
  if (!LockFile::try_take(staging, kLock, lock, group))
    throw Error(
        staging.path_of(kLock),
        fmt::format("another run is unpacking a set of this name here ({}); wait for it, or use another "
                    "directory",
                    LockFile::holder(staging, kLock)));
  return lock;
}

}  // namespace

Target::Target(const std::string& dir, const std::string& name, bool force, bool preserve_modes,
               const Context& context)
    : name_(staging_name(name)),
      dir_(Dir::make(context.os, dir)),
      staging_(dir_.make_private_dir(name_, context.group_shared)),
      force_(force),
      preserve_modes_(preserve_modes),
      umask_(file_creation_mask()),
      context_(context),
      lock_(locked(staging_, context.group_shared)) {}

OnDisk Target::on_disk() const {
  return [this](const std::string& path) -> std::optional<DiskEntry> {
    std::string checked;
    for (std::size_t slash = path.find('/');; slash = path.find('/', slash + 1)) {
      checked = path.substr(0, slash);
      const auto st = dir_.look(checked);
      if (!st) return {};
      if (slash == path.npos && S_ISLNK(st->st_mode))
        return DiskEntry{DiskEntry::Kind::link, dir_.read_link(checked)};
      if (!S_ISDIR(st->st_mode)) return slash == path.npos ? std::optional(DiskEntry{}) : std::nullopt;
      if (slash == path.npos) return DiskEntry{DiskEntry::Kind::directory, ""};
    }
  };
}

// Without set-user-id and set-group-id: the owner of the unpacked file is not the owner of the packed one.
mode_t Target::mode_of(const Member& member) const {
  if (preserve_modes_) return member.mode & 01777;
  const mode_t of_group = context_.group_shared ? (member.mode & 0700) >> 3 : 0;
  return (member.mode | of_group) & 0775 & ~umask_;
}

// Members of a group go on with each other's files, whose modes only their owners can set: they have the last
// one from the start, as far as that lets the group write.
mode_t Target::staged_mode(const Member& member) const {
  return context_.group_shared ? (mode_of(member) | 0660) & ~umask_ : 0600;
}

void Target::write(std::size_t index, const Member& member, std::uint64_t offset, ConstBytes bytes) const {
  File file = staging_.open_or_create(staged(index), staged_mode(member));
  file.write(bytes, offset);
  file.start_writeback(offset, bytes.size());
  file.close();
}

void Target::set_size(std::size_t index, const Member& member, std::uint64_t size) const {
  File file = staging_.open_or_create(staged(index), staged_mode(member));
  file.truncate(size);
  file.close();
}

bool Target::reopen(std::size_t index, const Member& member) const {
  const auto st = staging_.look(staged(index));
  if (!st) return false;
  const mode_t mode = st->st_mode & 07777, wanted = staged_mode(member);
  if (st->st_uid != geteuid() && (mode != wanted || mode != mode_of(member))) {
    staging_.unlink(staged(index));
    return false;
  }
  if (mode != wanted) staging_.chmod(staged(index), wanted);
  return true;
}

void Target::sync_staged(std::size_t index, const Member& member) const {
  File file = staging_.open_or_create(staged(index), staged_mode(member));
  file.sync();
  file.close();
}

void Target::sync_directories() const {
  for (const std::string& directory : made_) dir_.open_dir(directory).sync();
  dir_.sync();
}

void Target::make_directory(const std::string& member) {
  if (member.empty() || member == "." || made_.contains(member)) return;
  make_directory(parent_of(member));
  const auto there = dir_.look(member);
  if (there && !S_ISDIR(there->st_mode))
    throw Error(dir_.path_of(member),
                S_ISLNK(there->st_mode)
                    ? "is a symbolic link; nothing is unpacked through it. Remove it, or unpack elsewhere"
                    : "is in the way of a directory of this name");
  dir_.make_dir(member);
  made_.insert(member);
}

void Target::require_force(const std::string& member) const {
  if (!force_) throw Error(dir_.path_of(member), "is there already with other contents; -f replaces it");
}

void Target::put_file(std::size_t index, const Member& member) const {
  const std::string& to = member.path;
  const auto there = dir_.look(to);
  if (there && S_ISDIR(there->st_mode))
    throw Error(dir_.path_of(to), "is a directory, in the way of a file of this name");
  File file = staging_.open_or_create(staged(index), staged_mode(member));
  if (there && S_ISREG(there->st_mode) && static_cast<std::uint64_t>(there->st_size) == member.size &&
      same_contents(context_, file, dir_.open_read(to))) {
    set_mode(member);
    staging_.unlink(staged(index));
    return;
  }
  if (there) require_force(to);
  if ((file.status().st_mode & 07777) != mode_of(member)) file.chmod(mode_of(member));
  file.sync_all();  // including the mode
  file.close();
  staging_.rename(staged(index), dir_, to);
}

void Target::put_link(std::size_t index, const Member& member) const {
  const std::string& to = member.path;
  const bool hard = member.type == MemberType::hardlink;
  const auto there = dir_.look(to);
  if (there && S_ISDIR(there->st_mode))
    throw Error(dir_.path_of(to), "is a directory, in the way of a link of this name");
  bool same = false;  // another file with the same contents, which the link replaces
  if (there && hard) {
    const struct stat file = dir_.status(member.target);
    if (there->st_ino == file.st_ino && there->st_dev == file.st_dev) return;
    same = S_ISREG(there->st_mode) && there->st_size == file.st_size &&
           same_contents(context_, dir_.open_read(member.target), dir_.open_read(to));
  } else if (there && S_ISLNK(there->st_mode)) {
    if (dir_.read_link(to) == member.target) return;
  }
  staging_.unlink(staged(index));
  if (hard)
    dir_.link(member.target, staging_, staged(index));
  else
    staging_.symlink(member.target, staged(index));
  if (there && !same) require_force(to);
  staging_.rename(staged(index), dir_, to);
}

void Target::set_mode(const Member& member) const {
  const mode_t there = dir_.status(member.path).st_mode;
  mode_t wanted = mode_of(member);
  if (context_.group_shared && S_ISDIR(there))
    wanted |= there & S_ISGID;  // what comes into it is the group's
  if ((there & 07777) != wanted) dir_.chmod(member.path, wanted);
}

void Target::remove_staged(std::size_t index) const noexcept {
  try {
    staging_.unlink(staged(index));
  } catch (const Error&) {  // another error is being thrown, and is the one to report
  }
}

void Target::remove_all_staged() const {
  for (const std::string& file : staging_.list())
    if (file != kLock) staging_.unlink(file);
}

Target::~Target() {
  lock_.clear();
  try {
    dir_.rmdir(name_);
  } catch (const Error&) {  // the next run removes it
  }
}

void Target::give_up() const noexcept {
  try {
    remove_all_staged();
  } catch (const Error&) {  // another error is being thrown, and is the one to report
  }
}

}  // namespace planesmith::chunks
