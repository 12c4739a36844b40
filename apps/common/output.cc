#include "common/output.h"

#include <errno.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "base/file_status.h"
#include "base/lock_file.h"
#include "base/paths.h"

namespace planesmith {
namespace {

// Devices and pipes must not be replaced by a file.
void write_through(Os& os, const std::string& path, std::string_view text) {
  const int fd = os.open(path.c_str(), O_WRONLY | O_CLOEXEC, 0);
  if (fd < 0) throw Error(path, strerror(errno));
  while (!text.empty()) {
    const ssize_t n = os.write(fd, text.data(), text.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) {
      const int error = errno;
      os.close(fd);
      throw Error(path, strerror(error));
    }
    text.remove_prefix(static_cast<std::size_t>(n));
  }
  os.close(fd);
}

// A link or pipe of another user in place of the output. Root's are trusted.
bool is_planted(const struct stat& there) {
  return (S_ISLNK(there.st_mode) || S_ISFIFO(there.st_mode)) && there.st_uid != geteuid() &&
         there.st_uid != 0;
}

}  // namespace

void write_output(const Context& context, const std::string& path, std::string_view text) {
  Os& os = context.os;
  std::string real = path;
  struct stat there {};
  const bool planted = os.lstat(path.c_str(), &there) == 0 && is_planted(there);
  if (planted && !S_ISLNK(there.st_mode))
    throw Error(path, fmt::format("is a pipe that belongs to {}", owner_and_mode(there)));
  if (!planted && exists(os, path)) {  // a link of another user is replaced, not followed
    const mode_t mode = status(os, path).st_mode;
    if (S_ISDIR(mode)) throw Error(path, "is a directory; give the name of a file");
    if (!S_ISREG(mode)) return write_through(os, path, text);
    real = real_path(path);
  }
  const std::vector<LockFile> lock = wait_for_lock(context, real + ".lock");
  write_atomically(os, real, text);
}

void refuse_input(const Context& context, const std::string& path, const std::string& checkpoint) {
  if (exists(context.os, path) && S_ISREG(status(context.os, path).st_mode) &&
      is_inside(real_path(path), real_path(checkpoint)))
    throw Error(ErrorCode::usage, path, "is a file of the checkpoint; choose another name");
}

}  // namespace planesmith
