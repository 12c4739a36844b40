// build-planescache: builds the planes cache of each rank from a checkpoint, and packs in the same pass on
// request.
#include "common/build_flags.h"
#include "common/flag_values.h"

using namespace planesmith;

int main(int argc, char** argv) {
  CLI::App app("Builds the engine's planes cache from a checkpoint's routed experts.", "build-planescache");
  CommonFlags common;
  BuildFlags flags;
  std::string store;
  app.add_option("CHECKPOINT", flags.checkpoint, "Directory with config.json and safetensors shards")
      ->required();
  app.add_option("-o,--out", flags.out, "Root directory of the planes cache")->required();
  app.add_option(
         "--fp4", flags.files.fp4,
         "FP4 planes in the cache: none, nibble, quintal (split modes) (default: those of --for, else "
         "nibble)")
      ->check(CLI::IsMember({"none", "nibble", "quintal"}));
  CLI::Option* const with_packs = app.add_option(
      "--store", store,
      "Also write packs into this directory, in the same pass; 0=DIR,1=DIR: one for each rank");
  add_tiers_flag(app, flags.files)->needs(with_packs);
  add_build_flags(app, flags);
  add_common_flags(app, common);
  return run_program(app, argc, argv, common, [&](Context& context) {
    flags.files.has_cache = true;
    flags.files.has_store = !store.empty();
    BuildTarget target;
    target.cache_root = flags.out;
    target.store = PackDirs::parse(store, "--store");
    return run_build(context, flags, target);
  });
}
