// Symbolic links in a store that other users may write to.
#pragma once

#include <string>

#include "base/os.h"

namespace planesmith {

// Why `path`, below `base`, is not read: a component below `base` is a symbolic link that belongs neither to
// the current user nor to root nor to the owner of the link's directory ("SUB/NAME is a symbolic link of user
// 65534 (nobody), ..."). Empty: there is no such link. A link of the directory's owner, which the engine
// follows, is noted once with its target.
std::string planted_link(Os& os, const std::string& base, const std::string& path);

}  // namespace planesmith
