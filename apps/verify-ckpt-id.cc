// Identity of checkpoints, and whether caches and packs are what they claim to be.
#include "verify_ckpt_id/commands.h"

int main(int argc, char** argv) {
  using namespace planesmith;
  Subcommands commands("Identify checkpoints, and prove caches and packs right before they are served",
                       "verify-ckpt-id");
  add_id(commands);
  add_manifest(commands);
  add_check(commands);
  add_store_list(commands);
  add_audit(commands);
  add_prune(commands);
  add_rekey(commands);
  return commands.parse_and_run(argc, argv);
}
