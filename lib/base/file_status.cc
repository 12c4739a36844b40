#include "base/file_status.h"

#include <fmt/format.h>
#include <pwd.h>

#include <vector>

#include "base/os_call.h"
#include "base/text.h"

namespace planesmith {

bool unchanged(const struct stat& before, const struct stat& after) {
  return before.st_ino == after.st_ino && before.st_size == after.st_size &&
         before.st_mtim.tv_sec == after.st_mtim.tv_sec && before.st_mtim.tv_nsec == after.st_mtim.tv_nsec;
}

bool stat_of(Os& os, const std::string& path, struct stat& out) {
  return retried([&] { return os.stat(path.c_str(), &out); }) == 0;
}

bool lstat_of(Os& os, const std::string& path, struct stat& out) {
  return retried([&] { return os.lstat(path.c_str(), &out); }) == 0;
}

bool accessible(Os& os, const std::string& path, int mode) {
  return retried([&] { return os.access(path.c_str(), mode); }) == 0;
}

bool on_read_only_mount(Os& os, const std::string& path) {
  struct statvfs st {};
  return os.statvfs(path.c_str(), &st) == 0 && (st.f_flag & ST_RDONLY) != 0;
}

std::string owner_and_mode(const struct stat& status) {
  std::vector<char> buffer(4096);
  struct passwd entry {
  }, *found = nullptr;
  const bool named =
      getpwuid_r(status.st_uid, &entry, buffer.data(), buffer.size(), &found) == 0 && found != nullptr;
  return fmt::format("user {}, mode {:04o}",
                     named ? fmt::format("{} ({})", printable(entry.pw_name), status.st_uid)
                           : fmt::format("{}", status.st_uid),
                     status.st_mode & 07777);
}

}  // namespace planesmith
