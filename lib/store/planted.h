// Symbolic links in a store that other users may write to.
#pragma once

#include <string>

#include "base/os.h"

namespace planesmith {

// The reason why `path`, below `base`, is not read: a component below `base` is a symbolic link that belongs
// neither to the current user nor to root nor to the owner of the link's directory ("SUB/NAME is a symbolic
// link of user alice (1000), ..."). Empty if no component is such a link. The engine follows links of the
// directory's owner; they are noted once with their targets.
std::string planted_link(Os& os, const std::string& base, const std::string& path);

}  // namespace planesmith
