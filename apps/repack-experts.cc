// Expert weights in fewer values: variants to compare, the proof that repacking changes nothing else, and how
// well a model bears the 2-bit codebook.
#include "repack_experts/commands.h"

int main(int argc, char** argv) {
  using namespace planesmith;
  Subcommands commands("Repack the routed experts of a checkpoint with codebooks of 2 to 16 levels",
                       "repack-experts");
  add_build(commands);
  add_gate(commands);
  add_analyze(commands);
  add_quantize(commands);
  add_translate(commands);
  add_finish(commands);
  return commands.parse_and_run(argc, argv);
}
