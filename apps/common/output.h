// Files that are written where the user says.
#pragma once

#include <string>
#include <string_view>

#include "base/context.h"

namespace planesmith {

// Writes the whole file or, where that fails, leaves what was there. What is not a regular file (/dev/null, a
// pipe) is written to, a link is followed. Runs that write the same file take turns.
void write_output(const Context& context, const std::string& path, std::string_view text);

// Error (usage): `path` is a file of this checkpoint, which is only read.
void refuse_input(const Context& context, const std::string& path, const std::string& checkpoint);

}  // namespace planesmith
