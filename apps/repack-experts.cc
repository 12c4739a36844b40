// repack-experts: makes checkpoints from checkpoints. Fewer expert levels, quantizing, translating layouts,
// completing what quantizers left out, and measuring what the 2-bit codebook costs.
#include "repack_experts/commands.h"

int main(int argc, char** argv) {
  using namespace planesmith;
  Subcommands commands(
      "Make checkpoints from checkpoints: quantize, translate, complete or repack routed experts, and "
      "measure the cost",
      "repack-experts");
  add_build(commands);
  add_gate(commands);
  add_analyze(commands);
  add_quantize(commands);
  add_translate(commands);
  add_finish(commands);
  return commands.parse_and_run(argc, argv);
}
