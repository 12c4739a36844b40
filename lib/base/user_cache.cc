#include "base/user_cache.h"

#include <fmt/format.h>
#include <stdlib.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>

#include "base/dir.h"
#include "base/error.h"
#include "base/file_status.h"
#include "base/hash.h"
#include "base/temporary.h"

namespace planesmith {
namespace {

constexpr std::uint64_t kMostBytes = 64 << 20;

std::string name_for(std::string_view key) {
  return sha256_hex(key) + ".json";
}

// A name of its own, because two runs may remember the same thing at once.
std::string own_temporary(const std::string& name) {
  std::uint64_t random = 0;
  if (getrandom(&random, sizeof random, 0) != sizeof random) random = static_cast<std::uint64_t>(getpid());
  return temporary_name(fmt::format("{}.{:016x}", name, random));
}

// An error here must not end a run; it is reported once.
template <typename Work>
auto or_note(Os& os, Work work) -> decltype(work()) {
  try {
    return work();
  } catch (const Error& error) {
    // Without what to do about records of a build.
    const std::string what = error.what();
    os.note_once("user cache", fmt::format("{}; the user cache is not used (XDG_CACHE_HOME names "
                                           "another place)",
                                           what.substr(0, what.find(';'))));
    return {};
  }
}

std::optional<Dir> find_group(Os& os, std::string_view group) {
  const std::string directory = user_cache_directory();
  const std::optional<Dir> parent = directory.empty() ? std::nullopt : Dir::find(os, parent_of(directory));
  const std::optional<Dir> ours = parent ? parent->find_private_dir(name_of(directory)) : std::nullopt;
  return ours ? ours->find_private_dir(std::string(group)) : std::nullopt;
}

Dir make_group(Os& os, const std::string& directory, std::string_view group) {
  return Dir::make(os, parent_of(directory))
      .make_private_dir(name_of(directory))
      .make_private_dir(std::string(group));
}

}  // namespace

std::string user_cache_directory() {
  // The base directory specification says to ignore a relative XDG_CACHE_HOME.
  if (const char* xdg = getenv("XDG_CACHE_HOME"); xdg != nullptr && xdg[0] == '/')
    return join(xdg, "planesmith");
  if (const char* home = getenv("HOME"); home != nullptr && home[0] == '/')
    return join(home, ".cache/planesmith");
  return "";
}

Json recall(Os& os, std::string_view group, std::string_view key) {
  return or_note(os, [&]() -> Json {
    const std::optional<Dir> dir = find_group(os, group);
    const std::string name = name_for(key);
    const std::optional<struct stat> there = dir ? dir->look(name) : std::nullopt;
    if (!there || there->st_uid != geteuid() || there->st_mtim.tv_sec > time(nullptr)) return nullptr;
    return parse_json(dir->read_text(name, kMostBytes), dir->path_of(name));
  });
}

void remember(Os& os, std::string_view group, std::string_view key, const Json& value) {
  const std::string directory = user_cache_directory();
  if (directory.empty()) return;
  or_note(os, [&] {
    const Dir dir = make_group(os, directory, group);
    const std::string name = name_for(key), temporary = own_temporary(name);
    try {
      File file = dir.create_new(temporary, 0600);
      file.write(bytes_of(pretty(value)), 0);
      file.sync();
      file.close();
      dir.rename(temporary, name);
    } catch (...) {
      dir.unlink(temporary);
      throw;
    }
    return true;
  });
}

void forget(Os& os, std::string_view group, std::string_view key) {
  or_note(os, [&] {
    const std::optional<Dir> dir = find_group(os, group);
    return dir && dir->unlink(name_for(key));
  });
}

Json file_stamp(const struct stat& status) {
  return {{"size", status.st_size},
          {"mtime", {status.st_mtim.tv_sec, status.st_mtim.tv_nsec}},
          {"ctime", {status.st_ctim.tv_sec, status.st_ctim.tv_nsec}},
          {"inode", status.st_ino}};
}

bool same_but_ctime(const Json& a, const Json& b) {
  if (!a.is_object() || !b.is_object()) return false;
  for (const char* key : {"size", "mtime", "inode"})
    if (!a.contains(key) || !b.contains(key) || a[key] != b[key]) return false;
  return true;
}

}  // namespace planesmith
