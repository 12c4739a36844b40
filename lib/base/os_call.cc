#include "base/os_call.h"

#include <fmt/format.h>
#include <string.h>

#include "base/error.h"

namespace planesmith {

void fail_errno(const std::string& path, std::string_view what, int error) {
  std::string reason = fmt::format("{}: {}", what, strerror(error));
  if (error == ENOSPC || error == EDQUOT)
    reason += "; free some space and run the same command again to go on";
  throw Error(path, reason).because(error);
}

bool cannot_sync_directories(int error) {
  switch (error) {
    case EINVAL:
    case ENOTSUP:
    case ENOTTY:
    case ENOSYS:
    case EBADF:
    case EROFS:
    case EISDIR:
      return true;
    default:
      return false;
  }
}

}  // namespace planesmith
