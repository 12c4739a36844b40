// Checkpoint -> planes cache of each rank, and packs in the same pass where asked for.
#include "common/build_flags.h"
#include "common/flag_values.h"

using namespace planesmith;

int main(int argc, char** argv) {
  CLI::App app("Builds the engine's planes cache from a checkpoint's routed experts.", "build-planescache");
  CommonFlags common;
  BuildFlags flags;
  std::string fp4 = "nibble", store, tiers = "base,delta,fp4";
  app.add_option("CHECKPOINT", flags.checkpoint, "Directory with config.json and safetensors shards")
      ->required();
  app.add_option("-o,--out", flags.out, "Root directory of the planes cache")->required();
  app.add_option("--fp4", fp4, "FP4 planes in the cache: none, nibble, quintal (split mode)")
      ->check(CLI::IsMember({"none", "nibble", "quintal"}))
      ->capture_default_str();
  CLI::Option* const with_packs =
      app.add_option("--store", store, "Also write packs into this directory, in the same pass");
  app.add_option("--tiers", tiers, "Packs to write, of " + format::tier_names())
      ->needs(with_packs)
      ->capture_default_str();
  add_build_flags(app, flags);
  add_common_flags(app, common);
  return run_program(app, argc, argv, common, [&](Context& context) {
    PlanRequest request;
    request.cache = format::parse_fp4_tier(fp4);
    if (!store.empty()) request.tiers = parse_tiers(tiers);
    BuildTarget target;
    target.cache_root = flags.out;
    target.store = store;
    return run_build(context, flags, request, target);
  });
}
