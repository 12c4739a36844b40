// Pieces of a plan in words, for those who write packs without one.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "plan/plan.h"

namespace planesmith {

// The packs of one tier on so many ranks, `layers` of them filled.
Plan::Written written_packs(const format::PackSpec& spec, std::uint64_t ranks, std::uint64_t layers);

std::string describe(const Plan::Written& written);  // "base pack: 4 files, 6.75 MiB (7077888 bytes); ..."
Json to_json(const Plan::Written& written);

// {0, 1, 2, 7} as "0-2,7", as --layers takes it, or with another separator.
std::string number_list(const std::vector<std::uint64_t>& sorted, std::string_view separator);

}  // namespace planesmith
