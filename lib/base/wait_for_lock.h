// A lock that is held for moments only.
#pragma once

#include <string>
#include <vector>

#include "base/context.h"
#include "base/file.h"

namespace planesmith {

// Takes it as soon as nobody else holds it. Stop is polled meanwhile.
std::vector<LockFile> wait_for_lock(const Context& context, const std::string& path);

}  // namespace planesmith
