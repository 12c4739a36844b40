// Flags of every command that writes much data: --group-shared and --no-space-check.
#pragma once

#include "common/program.h"

namespace planesmith {

struct OutputFlags {
  bool group_shared = false, no_space_check = false;
};
void add_output_flags(CLI::App& app, OutputFlags& flags);  // --group-shared, --no-space-check

}  // namespace planesmith
