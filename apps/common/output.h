// Writes files whose names the user gives.
#pragma once

#include <string>
#include <string_view>

#include "base/context.h"

namespace planesmith {

// Writes the file atomically; on failure the old file stays. Devices and pipes (/dev/null) are written to,
// links are followed, except links and pipes of other users. Runs that write the same file take turns.
void write_output(const Context& context, const std::string& path, std::string_view text);

// Error (usage): `path` is a file of this checkpoint, which is only read.
void refuse_input(const Context& context, const std::string& path, const std::string& checkpoint);

}  // namespace planesmith
