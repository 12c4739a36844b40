#include "base/user_cache.h"

#include <fmt/format.h>
#include <stdlib.h>

#include "base/error.h"
#include "base/file.h"
#include "base/hash.h"

namespace planesmith {
namespace {

std::string file_for(std::string_view group, std::string_view key) {
  const std::string directory = user_cache_directory();
  return directory.empty() ? "" : fmt::format("{}/{}/{}.json", directory, group, sha256_hex(key));
}

}  // namespace

std::string user_cache_directory() {
  // A relative XDG_CACHE_HOME is to be ignored, says the base directory specification.
  if (const char* xdg = getenv("XDG_CACHE_HOME"); xdg != nullptr && xdg[0] == '/')
    return join(xdg, "planesmith");
  if (const char* home = getenv("HOME"); home != nullptr && home[0] == '/')
    return join(home, ".cache/planesmith");
  return "";
}

Json recall(Os& os, std::string_view group, std::string_view key) {
  const std::string path = file_for(group, key);
  try {
    if (!path.empty() && exists(os, path)) return read_json(os, path);
  } catch (const Error&) {
  }
  return nullptr;
}

void remember(Os& os, std::string_view group, std::string_view key, const Json& value) {
  const std::string path = file_for(group, key);
  if (path.empty()) return;
  try {
    make_dirs(os, parent_of(path));
    write_atomically(os, path, pretty(value));
  } catch (const Error&) {
  }
}

void forget(Os& os, std::string_view group, std::string_view key) {
  if (const std::string path = file_for(group, key); !path.empty()) os.unlink(path.c_str());
}

Json file_stamp(const struct stat& status) {
  return {{"size", status.st_size},
          {"mtime", {status.st_mtim.tv_sec, status.st_mtim.tv_nsec}},
          {"ctime", {status.st_ctim.tv_sec, status.st_ctim.tv_nsec}},
          {"inode", status.st_ino}};
}

}  // namespace planesmith
