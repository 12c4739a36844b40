// How long a build takes on these disks, from a second of trying.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/context.h"

namespace planesmith {

struct DiskRates {
  double read = 0, write = 0;  // bytes per second; 0: not measured
};

// Reads pieces all over these files, past the page cache, and writes a file into `directory` that is removed
// again; half a second each.
DiskRates measure_disks(const Context& context, const std::vector<std::string>& files,
                        const std::string& directory);

}  // namespace planesmith
