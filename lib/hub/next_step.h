// What to do with what was fetched.
#pragma once

#include <string>
#include <vector>

#include "base/context.h"

namespace planesmith::hub {

// The command that checks what lies in these directories (planes caches, packs, a checkpoint);
// empty where they hold none of these.
std::string next_step(const std::vector<std::string>& places, const Context& context);

}  // namespace planesmith::hub
