// --ckpt-id, --served-path, --revision and --recompute, for all commands that write or check a cache.
#pragma once

#include <CLI/CLI.hpp>

#include "checkpoint/identity.h"

namespace planesmith {

void add_identity_flags(CLI::App& app, IdentityOptions& options);

}  // namespace planesmith
