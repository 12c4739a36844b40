#include "base/wait_for_lock.h"

#include <chrono>
#include <thread>

namespace planesmith {

std::vector<LockFile> wait_for_lock(const Context& context, const std::string& path) {
  std::vector<LockFile> held;
  while (!LockFile::try_take(context.os, path, held)) {
    context.check_stop();
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  return held;
}

}  // namespace planesmith
