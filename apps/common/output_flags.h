// Flags of every command that writes much: how its output is shared, and whether it has to fit.
#pragma once

#include "common/program.h"

namespace planesmith {

struct OutputFlags {
  bool group_shared = false, no_space_check = false;
};
void add_output_flags(CLI::App& app, OutputFlags& flags);  // --group-shared, --no-space-check

}  // namespace planesmith
