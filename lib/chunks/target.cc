#include "chunks/target.h"

#include <errno.h>
#include <fmt/format.h>
#include <string.h>

#include <algorithm>
#include <optional>

#include "base/error.h"
#include "base/size.h"

namespace planesmith::chunks {
namespace {

// What is there under a name, links not followed.
std::optional<struct stat> look(Os& os, const std::string& path) {
  struct stat st {};
  if (os.lstat(path.c_str(), &st) == 0) return st;
  if (errno == ENOENT || errno == ENOTDIR) return {};
  throw Error(path, fmt::format("cannot stat: {}", strerror(errno)));
}

void change_mode(Os& os, const std::string& path, mode_t mode) {
  if (os.chmod(path.c_str(), mode) != 0)
    throw Error(path, fmt::format("cannot set the mode: {}", strerror(errno)));
}

// Set-user-id and set-group-id stay away: the owner they would act for is not the one who packed.
mode_t safe_mode(const Member& member) {
  return member.mode & 01777;
}

}  // namespace

Target::Target(std::string dir, const std::string& name, bool force, const Context& context)
    : dir_(std::move(dir)), staging_(join(dir_, "." + name + ".unpack")), force_(force), context_(context) {
  make_dirs(context.os, dir_);
  if (!LockFile::try_take(context.os, staging_ + ".lock", lock_))
    throw Error(staging_ + ".lock",
                "another run is unpacking a set of this name here; wait for it, or use another directory");
  const auto there = look(context.os, staging_);
  if (there && !S_ISDIR(there->st_mode))
    throw Error(staging_, "is in the way; it should be a directory or nothing");
  make_dirs(context.os, staging_);
  change_mode(context.os, staging_, 0700);  // files get their own modes at the end
}

void Target::write(std::size_t index, std::uint64_t offset, ConstBytes bytes) const {
  File file = File::open_write(context_.os, staged(index));
  file.write(bytes, offset);
  file.start_writeback(offset, bytes.size());
  file.close();
}

void Target::set_size(std::size_t index, std::uint64_t size) const {
  File file = File::open_write(context_.os, staged(index));
  file.truncate(size);
  file.close();
}

bool Target::reopen(std::size_t index) const {
  if (!exists(context_.os, staged(index))) return false;
  change_mode(context_.os, staged(index), 0600);
  return true;
}

void Target::sync_staged(std::size_t index) const {
  File file = File::open_write(context_.os, staged(index));
  file.sync();
  file.close();
}

void Target::sync_directories() const {
  for (const std::string& directory : made_) sync_dir(context_.os, path(directory));
  sync_dir(context_.os, dir_);
}

void Target::make_directory(const std::string& member) {
  if (member.empty() || member == "." || made_.contains(member)) return;
  make_directory(parent_of(member));
  const auto there = look(context_.os, path(member));
  if (there && !S_ISDIR(there->st_mode))
    throw Error(path(member),
                S_ISLNK(there->st_mode)
                    ? "is a symbolic link; nothing is unpacked through it. Remove it, or unpack elsewhere"
                    : "is in the way of a directory of this name");
  if (!there && context_.os.mkdir(path(member).c_str(), 0777) != 0 && errno != EEXIST)
    throw Error(path(member), fmt::format("cannot make the directory: {}", strerror(errno)));
  made_.insert(member);
}

void Target::require_force(const std::string& there) const {
  if (!force_) throw Error(there, "is there already with other contents; -f replaces it");
}

void Target::put_file(std::size_t index, const Member& member) const {
  const std::string from = staged(index), to = path(member.path);
  const auto there = look(context_.os, to);
  if (there && S_ISDIR(there->st_mode)) throw Error(to, "is a directory, in the way of a file of this name");
  if (there && S_ISREG(there->st_mode) && static_cast<std::uint64_t>(there->st_size) == member.size &&
      same_contents(context_, from, to)) {
    change_mode(context_.os, to, safe_mode(member));
    return remove_file(context_.os, from);
  }
  if (there) require_force(to);
  File file = File::open_write(context_.os, from);  // before its mode may forbid that
  change_mode(context_.os, from, safe_mode(member));
  file.sync_all();  // the mode, too
  file.close();
  rename_file(context_.os, from, to);
}

void Target::put_link(std::size_t index, const Member& member) const {
  const std::string from = staged(index), to = path(member.path), target = path(member.target);
  const bool hard = member.type == MemberType::hardlink;
  const auto there = look(context_.os, to);
  if (there && S_ISDIR(there->st_mode)) throw Error(to, "is a directory, in the way of a link of this name");
  bool same = false;  // in contents, but another file: the link takes its place
  if (there && hard) {
    const struct stat file = status(context_.os, target);
    if (there->st_ino == file.st_ino && there->st_dev == file.st_dev) return;
    same = S_ISREG(there->st_mode) && there->st_size == file.st_size && same_contents(context_, target, to);
  } else if (there && S_ISLNK(there->st_mode)) {
    if (read_link(context_.os, to) == member.target) return;
  }
  remove_file(context_.os, from);
  const int result = hard ? context_.os.link(target.c_str(), from.c_str())
                          : context_.os.symlink(member.target.c_str(), from.c_str());
  if (result != 0)
    throw Error(to, fmt::format("cannot make the link to '{}': {}", member.target, strerror(errno)));
  if (there && !same) require_force(to);
  rename_file(context_.os, from, to);
}

void Target::set_mode(const Member& member) const {
  const std::string there = path(member.path);
  if ((status(context_.os, there).st_mode & 07777) != safe_mode(member))
    change_mode(context_.os, there, safe_mode(member));
}

void Target::remove_staged(std::size_t index) const noexcept {
  context_.os.unlink(staged(index).c_str());
}

void Target::remove_all_staged() const {
  for (const std::string& file : list_dir(context_.os, staging_))
    remove_file(context_.os, join(staging_, file));
}

void Target::remove() const {
  remove_all_staged();
  remove_dir_if_empty(context_.os, staging_);
  sync_dir(context_.os, dir_);
}

void Target::give_up() const noexcept {
  try {
    remove();
  } catch (const Error&) {  // on the way out of another error, which is the one to tell
  }
}

bool same_contents(const Context& context, const std::string& a, const std::string& b) {
  const File file_a = File::open_read(context.os, a), file_b = File::open_read(context.os, b);
  const std::uint64_t size = file_a.size();
  if (size != file_b.size()) return false;
  std::vector<std::uint8_t> buffer(2 * kMiB);
  for (std::uint64_t at = 0; at < size; at += kMiB) {
    context.check_stop();
    const std::size_t n = std::min<std::uint64_t>(kMiB, size - at);
    const Bytes x = Bytes(buffer).first(n), y = Bytes(buffer).subspan(kMiB, n);
    file_a.read(x, at);
    file_b.read(y, at);
    if (memcmp(x.data(), y.data(), n) != 0) return false;
  }
  return true;
}

}  // namespace planesmith::chunks
