// The engine's heat files (ENGINE.md section 2), with which a server warms up its pools at start.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/context.h"

namespace planesmith {

struct HeatPlace {
  std::uint64_t layer = 0, expert = 0;
};

// Writes the heat files of every pack in the store, hottest pairs first; returns the paths. Errors: no packs;
// a pack of fewer layers or experts than the heat names.
std::vector<std::string> write_heat(const Context& context, const std::string& store,
                                    const std::vector<HeatPlace>& hottest_first);

}  // namespace planesmith
