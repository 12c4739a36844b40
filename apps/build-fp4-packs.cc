// build-fp4-packs: builds pack stores from a checkpoint or from an existing planes cache.
#include <fmt/format.h>

#include "base/size.h"
#include "base/text.h"
#include "checkpoint/pin.h"
#include "common/build_flags.h"
#include "common/flag_values.h"
#include "common/geometry_flags.h"
#include "common/outlook.h"
#include "common/wait_for_others.h"
#include "pipeline/from_planescache.h"
#include "plan/describe.h"

using namespace planesmith;

namespace {

int from_planescache(Context& context, const BuildFlags& flags, FromCacheRequest request) {
  request.world = flags.world;
  request.rank = parse_rank(flags.rank);
  request.zero_mode = format::parse_zero_mode(flags.zero_mode);
  request.store = PackDirs::parse(flags.out, "--out");
  if (flags.identity.pin) check_pin(*flags.identity.pin, "--ckpt-id");
  request.ckpt_id = flags.identity.pin;
  request.trust = trust_of(flags);
  request.dry_run = flags.dry_run;
  request.check_space = !flags.output.no_space_check;
  if (flags.output.group_shared) share_with_group(context);
  request.drafts = flags.drafts;
  if (flags.layers) request.layers = parse_number_list(*flags.layers, "--layers");
  const FromCacheReport report =
      until_others_are_done(context, flags.wait, [&](const Context& each, bool again) {
        if (again) request.trust = Trust::record;
        return packs_from_planescache(each, request, choose_kernels(flags.backend.isa));
      });
  const int status = report.elsewhere == 0 ? 0 : static_cast<int>(ErrorCode::busy);
  DryRun run{report.outlook, report.ckpt_id, request.store.all(), {}};
  if (flags.dry_run) {
    if (flags.estimate)
      run.rates = measure_disks(context, report.read_from, report.outlook.file_systems.front().directory);
  } else if (report.complete) {
    suggest_next(fmt::format("verify-ckpt-id verify {}", quoted_paths(request.store.all())));
  }
  if (flags.json) {
    Json written = Json::array();
    for (const Plan::Written& packs : report.written) written.push_back(to_json(packs));
    Json out = {{"ckpt_id", report.ckpt_id},
                {"written", written},
                {"outputs", report.outputs},
                {"layers_converted", report.converted},
                {"layers_finished", report.finished},
                {"layers_left_to_others", report.elsewhere},
                {"bytes_to_write", report.outlook.to_write},
                {"bytes_shared", report.shared},
                {"bytes_copied", report.copied},
                {"without_manifest", report.without_manifest},
                {"complete", report.complete}};
    if (flags.dry_run) {
      out["outlook"] = outlook_json(run);
      out["peak_memory_bytes"] = report.peak_memory;
    }
    print_json(std::move(out));
    return status;
  }
  std::string text = fmt::format("identity  {}\n", printable(report.ckpt_id));
  for (const std::string& path : report.outputs) text += fmt::format("output    {}\n", printable(path));
  if (flags.dry_run) {
    for (const Plan::Written& packs : report.written) text += fmt::format("written   {}\n", describe(packs));
    text += fmt::format("to write  {}, less what can be shared\nmemory    {}\n",
                        exact_size(report.outlook.to_write), exact_size(report.peak_memory));
    text += outlook_text(context, run);
  } else {
    text +=
        fmt::format("layers    {} assembled, {} already there, {} left to another run (summed over packs)\n",
                    report.converted, report.finished, report.elsewhere);
    const bool vouched = report.without_manifest.empty();
    const char* const unvouched =
        ", read for their digests; the cache has no manifest, so they could not be checked";
    text += fmt::format("shared    {}{}\n", exact_size(report.shared),
                        report.shared == 0 ? ""
                        : !vouched         ? unvouched
                        : flags.recheck
                            ? ", read and checked"
                            : ", digests inherited from the cache's manifest unread (--recheck reads)");
    text += fmt::format("copied    {}{}\n", exact_size(report.copied),
                        report.copied == 0 ? ""
                        : vouched          ? ", verified against the cache's manifest"
                                           : unvouched);
    text += report.complete ? "complete  all layers are there, manifests are written\n"
            : status == 0   ? "complete  no: layers are missing\n"
                            : "complete  no: another run is still writing layers; --wait waits for it\n";
  }
  print_result(text);
  return status;
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("Builds the engine's pack stores from a checkpoint or from a planes cache.",
               "build-fp4-packs");
  CommonFlags common;
  BuildFlags flags;
  FromCacheRequest cache;
  GeometryFlags geometry;
  std::string reflink = "auto";
  CLI::Option* const checkpoint =
      app.add_option("CHECKPOINT", flags.checkpoint, "Directory with config.json and safetensors shards");
  app.add_option("-o,--out", flags.out, "Directory of the packs; 0=DIR,1=DIR: one for each rank")->required();
  add_tiers_flag(app, flags.files);
  CLI::Option* const from = app.add_option("--from-planescache", cache.cache_root,
                                           "Assemble the packs from this planes cache instead")
                                ->excludes(checkpoint);
  app.add_option("--reflink", reflink,
                 "Share blocks with the cache where the file system can: auto, always, never")
      ->needs(from)
      ->check(CLI::IsMember({"auto", "always", "never"}))
      ->capture_default_str();
  add_build_flags(app, flags);
  for (CLI::Option* option : add_geometry_flags(app, geometry)) option->needs(from);
  // The identity comes from the cache, and nothing is converted.
  for (const char* option : {"--served-path", "--recompute", "--backend", "--gpus"})
    from->excludes(app.get_option(option));
  add_common_flags(app, common);
  return run_program(app, argc, argv, common, [&](Context& context) {
    flags.files.has_store = true;
    if (*from) {
      cache.tiers = chosen_tiers(flags.files, true);
      cache.reflink = parse_reflink(reflink);
      cache.model = told_model(context.os, geometry);
      return from_planescache(context, flags, cache);
    }
    if (flags.checkpoint.empty())
      throw Error(ErrorCode::usage, "", "either CHECKPOINT or --from-planescache ROOT is needed; see --help");
    BuildTarget target;
    target.store = PackDirs::parse(flags.out, "--out");
    return run_build(context, flags, target);
  });
}
