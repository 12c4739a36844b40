// A directory that was named for a planes cache or for packs, and is not one: what it is instead.
#pragma once

#include <string>
#include <vector>

#include "store/store.h"

namespace planesmith {

// Error (failed): `root` or `directory` (empty: not named) is not there, is the wrong level of a planes
// cache, or holds the other kind. The message says where the right one is, as far as that can be told.
void refuse_wrong_place(Os& os, const std::string& root, const std::string& directory);

// What of the store is of no identity or not finished, and why: a directory whose name is another's, a build
// that was stopped.
std::vector<std::string> remarks_on(const Store& store);

}  // namespace planesmith
