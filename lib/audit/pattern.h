// Lists of patterns in a checkpoint's recipe.
#pragma once

#include <string>
#include <vector>

#include "audit/checks.h"
#include "checkpoint/pattern.h"

namespace planesmith {

// The strings of a JSON list; those that are not sound are findings and left out.
std::vector<Pattern> patterns(const Json& list, Findings& findings);
// All that the recipe excludes, under any of the names that quantizers have for it.
std::vector<Pattern> ignored(const Inventory& inventory, Findings& findings);

}  // namespace planesmith
