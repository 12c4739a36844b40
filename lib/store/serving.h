// The environment with which a server finds what was checked.
#pragma once

#include <string>

#include "serve/environment.h"
#include "store/probe.h"

namespace planesmith {

// given: a configuration, whose pool sizes are kept; otherwise usual_pools() for a GPU of gpu_bytes. Paths
// are made absolute. A store is named only if it holds the packs of the mode, a planes cache only if the
// engine reads it. If each rank has its own directory of packs, the first rank's is named.
Environment environment_of(const BootVerdict& verdict, const Store& store, const Environment& given,
                           std::optional<std::uint64_t> gpu_bytes);

// The absolute path; links are not resolved.
std::string absolute_path(const std::string& path);

}  // namespace planesmith
