// The subcommands of repack-experts; each file here adds its own.
#pragma once

#include "common/subcommands.h"

namespace planesmith {

void add_analyze(Subcommands& commands);
void add_build(Subcommands& commands);
void add_finish(Subcommands& commands);
void add_gate(Subcommands& commands);
void add_quantize(Subcommands& commands);
void add_translate(Subcommands& commands);

}  // namespace planesmith
