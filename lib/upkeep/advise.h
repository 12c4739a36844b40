// What to do about what was found of a unit.
#pragma once

#include <string>
#include <utility>

#include "upkeep/units.h"

namespace planesmith {

// Fills in report.to_do: commands fit for a shell, with CHECKPOINT, SOURCE or ID where they are not known
// here, in the order in which they are to be run; or sentences.
void advise(const Context& context, UnitReport& report);

// Whether the manifest is there and this user may not read it: nothing is known of the unit then.
bool manifest_denied(const Context& context, const Unit& unit);

// What to do about a directory, link or owner where a file was expected, which no program decides: a command.
// Empty: it is none of these.
std::string decision(const Context& context, const Unit& unit, const Difference& difference);

// How a cache or pack is built of which nothing but its name is left.
std::string build_again(const Unit& unit);

// The name that meta.json or the sidecar gives, and the identity in it; empty: damaged, or missing.
std::pair<std::string, std::string> name_by_text(const Context& context, const Unit& unit);

}  // namespace planesmith
