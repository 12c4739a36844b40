// Parts of a plan as text and JSON; also for packs that are made without a plan.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "plan/plan.h"

namespace planesmith {

// What the packs of one tier take: one pack for each of `ranks` ranks, each with `layers` layers filled.
Plan::Written written_packs(const format::PackSpec& spec, std::uint64_t ranks, std::uint64_t layers);

std::string describe(const Plan::Written& written);  // "base pack: 4 files, 6.75 MiB (7077888 bytes); ..."
Json to_json(const Plan::Written& written);

// {0, 1, 2, 7} gives "0-2,7", the form that --layers takes, where the separator is ",".
std::string number_list(const std::vector<std::uint64_t>& sorted, std::string_view separator);

}  // namespace planesmith
