// The environment that a server needs to find what was checked.
#pragma once

#include <string>

#include "serve/environment.h"
#include "store/probe.h"

namespace planesmith {

// given: a configuration's own sizes of pools, which are kept; else usual_pools() of a GPU of so many bytes.
// Paths are made absolute. A store is named only where it holds the packs of the mode, a planes cache only
// where the engine reads it. Where each rank's packs have a directory of their own, it is that of the first
// rank.
Environment environment_of(const BootVerdict& verdict, const Store& store, const Environment& given,
                           std::optional<std::uint64_t> gpu_bytes);

// The path from the root of the file system, links kept.
std::string absolute_path(const std::string& path);

}  // namespace planesmith
