#include "base/os_call.h"

#include <fmt/format.h>
#include <string.h>

#include <chrono>
#include <thread>

#include "base/error.h"

namespace planesmith {

void fail_errno(const std::string& path, std::string_view what, int error) {
  std::string reason = fmt::format("{}: {}", what, strerror(error));
  if (error == ENOSPC || error == EDQUOT)
    reason += "; free some space and run the same command again to continue";
  throw Error(path, reason).because(error);
}

bool stale_for_a_moment(int& tries) {
  constexpr int kMost = 4;
  if (tries == kMost) return false;
  std::this_thread::sleep_for(std::chrono::milliseconds(10 << 2 * tries++));  // 0.85 s in all
  return true;
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
