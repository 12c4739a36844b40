#include "common/file_flags.h"

#include <fmt/format.h>

#include "base/error.h"
#include "common/flag_values.h"

namespace planesmith {

CLI::Option* add_mode_flag(CLI::App& app, FileFlags& flags) {
  return app
      .add_option("--for", flags.mode,
                  "Make the files that this mode of the engine opens; --fp4 and --tiers override it "
                  "(default: no mode)")
      ->type_name(modes_type());
}

CLI::Option* add_tiers_flag(CLI::App& app, FileFlags& flags) {
  return app
      .add_option(
          "--tiers", flags.tiers,
          "Packs to write, with commas between them (default: those of --for, else base,delta,fp4; of "
          "an FP8 checkpoint base,fp4)")
      ->type_name(tiers_type());
}

std::vector<format::Tier> chosen_tiers(const FileFlags& flags, bool has_cache) {
  using format::Tier;
  if (flags.tiers) return parse_tiers(*flags.tiers);
  if (flags.mode) return format::packs(format::parse_mode(*flags.mode));
  return has_cache ? std::vector{Tier::base, Tier::delta, Tier::fp4} : std::vector{Tier::base, Tier::fp4};
}

void choose_files(const Context& context, const FileFlags& flags, const Model& model, PlanRequest& request) {
  const bool has_cache = traits(model.family).has_cache;
  if (flags.mode) request.mode = format::parse_mode(*flags.mode);
  // The engine has no planes cache for FP8 checkpoints, and host modes need none.
  const bool needless = !has_cache && request.mode && format::switches(*request.mode).host && !flags.fp4;
  if (flags.has_cache && !needless)
    request.cache = flags.fp4      ? format::parse_fp4_tier(*flags.fp4)
                    : request.mode ? format::cache_fp4(*request.mode)
                                   : format::Fp4Tier::nibble;
  if (flags.has_store) request.tiers = chosen_tiers(flags, has_cache);
  if (!request.cache && request.tiers.empty())
    throw Error(ErrorCode::usage, "",
                needless ? fmt::format("the engine has no planes cache for FP8 checkpoints; mode {} needs "
                                       "packs only: give their directory with --store",
                                       format::name(*request.mode))
                         : fmt::format("mode {} opens no packs", format::name(*request.mode)));
  if (!has_cache && request.cache)
    context.progress.say(
        "warning: the engine neither reads nor writes a planes cache of an FP8 checkpoint; this one is a "
        "source for packs (build-fp4-packs --from-planescache) and nothing else");
  else if (needless)
    context.progress.say("no planes cache is made: the engine has none for FP8 checkpoints");
}

}  // namespace planesmith
