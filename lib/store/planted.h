// Symbolic links in a store that others may write to.
#pragma once

#include <string>

#include "base/os.h"

namespace planesmith {

// Why what stands at `path`, which lies below `base`, is not looked at: a component below `base` is a
// symbolic link of another user than the one who runs this, root and the owner of the link's directory
// ("SUB/NAME is a symbolic link of user 65534 (nobody), ..."). Empty: there is none. A link of the
// directory's owner, which the engine follows, is noted once with where it leads.
std::string planted_link(Os& os, const std::string& base, const std::string& path);

}  // namespace planesmith
