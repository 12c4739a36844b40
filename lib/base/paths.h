// How paths relate to what is on disk and to each other.
#pragma once

#include <string>
#include <string_view>

#include "base/os.h"

namespace planesmith {

// The path itself if it exists, else the nearest existing directory above it.
std::string nearest_existing(Os& os, std::string path);

// The path without links and dots, also where its last components do not exist yet.
std::string resolved(Os& os, const std::string& path);

// Whether a path is the directory or lies in it, both resolved (or written alike).
bool is_inside(std::string_view path, std::string_view directory);

// The path of the running program, links resolved. Error:
// neither /proc nor the path that it was started by tells it.
std::string program_path();

}  // namespace planesmith
