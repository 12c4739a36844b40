// Diagnoses a directory that was given as planes cache or pack store and is neither.
#pragma once

#include <string>
#include <vector>

#include "store/store.h"

namespace planesmith {

// Error ("not-found"): `root` or `directory` (empty: not given) does not exist, is the wrong level of a
// planes cache, or holds the other kind. The message names the right directory where it can be found.
void refuse_wrong_place(Os& os, const std::string& root, const std::string& directory);

// Remarks on what in the store has no identity or is unfinished, and why: a directory with another's name, a
// build that was stopped.
std::vector<std::string> remarks_on(const Store& store);

}  // namespace planesmith
