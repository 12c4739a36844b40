// Lists of patterns in a checkpoint's recipe.
#pragma once

#include <string>
#include <vector>

#include "audit/checks.h"
#include "checkpoint/pattern.h"

namespace planesmith {

// The strings of a JSON list. A pattern that is not sound becomes a finding and is left out.
std::vector<Pattern> patterns(const Json& list, Findings& findings);
// Everything that the recipe excludes, under any of the keys that quantizers use for it.
std::vector<Pattern> ignored(const Inventory& inventory, Findings& findings);

}  // namespace planesmith
