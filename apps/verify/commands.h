// The subcommands of verify-ckpt-id; each file here adds its own.
#pragma once

#include "common/subcommands.h"

namespace planesmith {

void add_id(Subcommands& commands);

}  // namespace planesmith
