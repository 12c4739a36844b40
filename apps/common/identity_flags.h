// --ckpt-id, --served-path, --revision and --recompute, the same wherever a cache is written or checked.
#pragma once

#include <CLI/CLI.hpp>

#include "checkpoint/identity.h"

namespace planesmith {

void add_identity_flags(CLI::App& app, IdentityOptions& options);

}  // namespace planesmith
