// The subcommands of verify-ckpt-id; each file here adds its own.
#pragma once

#include "common/subcommands.h"

namespace planesmith {

void add_id(Subcommands& commands);
void add_manifest(Subcommands& commands);
void add_verify_manifest(Subcommands& commands);
void add_repair(Subcommands& commands);
void add_check(Subcommands& commands);
void add_store_list(Subcommands& commands);
void add_audit(Subcommands& commands);
void add_prune(Subcommands& commands);
void add_rekey(Subcommands& commands);

}  // namespace planesmith
