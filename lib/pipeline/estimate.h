// Measures disks for an estimate of a build's duration.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/context.h"

namespace planesmith {

struct DiskRates {
  double read = 0, write = 0;  // bytes per second; 0: not measured
};

// Reads pieces from all over these files, past the page cache,
// and writes an unlinked file in `directory`; half a second each.
DiskRates measure_disks(const Context& context, const std::vector<std::string>& files,
                        const std::string& directory);

}  // namespace planesmith
