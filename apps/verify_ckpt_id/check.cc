// verify-ckpt-id check: would the engine boot from this?
#include <fmt/format.h>

#include <random>

#include "checkpoint/identity.h"
#include "common/flag_values.h"
#include "common/geometry_flags.h"
#include "store/probe.h"
#include "verify/report.h"
#include "verify/sample.h"
#include "verify_ckpt_id/commands.h"

namespace planesmith {
namespace {

struct CheckOptions {
  std::string planescache, store, checkpoint, rank = "all";
  GeometryFlags geometry;
  IdentityOptions identity;
  std::optional<std::string> zero_mode, fp4, tiers;
  std::optional<std::uint64_t> world, drafts, sample, seed;
  bool all = false, json = false, print_env = false;
};

void declare(CLI::App& app, CheckOptions& options) {
  app.add_option("--planescache", options.planescache, "Root of a planes cache");
  app.add_option("--store", options.store, "Directory of packs");
  CLI::Option* pin = app.add_option("--ckpt-id", options.identity.pin,
                                    "Identity the server is pinned to (default: the single one found there)");
  CLI::Option* served =
      app.add_option("--served-path", options.identity.served_path,
                     "Instead: the path the server is started with; with --checkpoint unless it is "
                     "no local directory");
  served->excludes(pin);
  app.add_option("--revision", options.identity.revision, "Revision the server is started with")
      ->needs(served);
  CLI::Option* checkpoint = app.add_option("--checkpoint", options.checkpoint, "Directory of the checkpoint");
  app.add_option("--world", options.world, "Tensor-parallel world (default: the one found there)")
      ->check(CLI::Range(std::uint64_t{1}, format::kMostWorld));
  app.add_option("--rank", options.rank, "One rank, or all")->capture_default_str();
  app.add_option("--zero-mode", options.zero_mode, "auto, sign or alt (default: the one found there)")
      ->type_name("TEXT:{auto,sign,alt}");
  app.add_option("--fp4", options.fp4,
                 "FP4 planes asked for: none, nibble or quintal (default: those found there)");
  app.add_option("--tiers", options.tiers,
                 fmt::format("Packs asked for, of {} (default: those found there)", format::tier_names()));
  app.add_option(
         "--drafts", options.drafts,
         "DSpark drafter blocks served, as layers behind the model's own (default: those found there)")
      ->check(CLI::Range(std::uint64_t{0}, format::kMostDrafts));
  add_geometry_flags(app, options.geometry);
  CLI::Option* sample =
      app.add_option("--sample", options.sample,
                     "Also convert this many experts again and compare the bytes (default: none)")
          ->needs(checkpoint);
  app.add_option("--seed", options.seed,
                 "Which experts are sampled (default: others each time; it is printed)")
      ->needs(sample);
  app.add_flag("--all", options.all, "The same for all experts")->needs(checkpoint)->excludes(sample);
  CLI::Option* json = app.add_flag("--json", options.json, "Print one JSON document");
  app.add_flag("--print-env", options.print_env,
               "Where it would boot, print only the export lines to serve with")
      ->excludes(json);
}

BootRequest request_of(Context& context, const CheckOptions& options) {
  BootRequest request;
  if (!options.identity.by_content())
    request.ckpt_id = resolve_identity(context, options.identity, options.checkpoint).id;
  request.world = options.world;
  request.rank = parse_rank(options.rank);
  request.drafts = options.drafts;
  if (options.zero_mode) request.zero_mode = format::parse_zero_mode(*options.zero_mode);
  if (options.fp4) request.fp4 = format::parse_fp4_tier(*options.fp4);
  if (options.tiers) request.tiers = parse_tiers(*options.tiers);
  return request;
}

void say_lines(Context& context, std::string_view text) {
  while (!text.empty()) {
    const std::size_t end = text.find('\n');
    context.progress.say(std::string(text.substr(0, end)));
    text.remove_prefix(end == text.npos ? text.size() : end + 1);
  }
}

SampleRequest sample_of(const CheckOptions& options) {
  SampleRequest request;
  if (!options.all) request.count = options.sample;
  if (options.sample) request.seed = options.seed.value_or(std::random_device()());
  return request;
}

int run(Context& context, const CheckOptions& options) {
  if (options.planescache.empty() && options.store.empty())
    throw Error(ErrorCode::usage, "", "give --planescache, --store or both");
  const BootRequest request = request_of(context, options);
  const Store store = scan_store(context.os, options.planescache, options.store);
  const Boot boot = complete(request, store);
  BootVerdict verdict;
  std::optional<SampleReport> sample;
  if (options.checkpoint.empty()) {
    std::optional<KnownModel> model = model_in(store, boot.ckpt_id);
    verdict = probe(context.os, store, boot, model ? model : told_model(context.os, options.geometry));
  } else {
    const Checkpoint checkpoint = Checkpoint::open(context, options.checkpoint);
    Model model = find_experts(checkpoint, options.drafts.value_or(0));
    if (!options.drafts)
      if (const std::uint64_t drafts =
              drafts_there(store, boot, model_of_checkpoint(model, options.checkpoint));
          drafts != 0)
        model = find_experts(checkpoint, drafts);
    verdict = probe(context.os, store, boot, model_of_checkpoint(model, options.checkpoint));
    if (options.sample || options.all)
      sample = compare_with_checkpoint(context, store, verdict, checkpoint, model, sample_of(options));
  }
  if (verdict.model) say_profile(context, verdict.model->geometry);
  const bool good = verdict.hit() && (!sample || sample->differences.empty());

  if (options.json) {
    Json out = to_json(verdict);
    if (sample) out["content"] = to_json(*sample);
    if (!good) out.erase("environment");
    print_result(pretty(out));
  } else if (options.print_env && good) {
    print_result(export_line(boot.ckpt_id) + "\n");
  } else {
    const std::string text = to_text(verdict) + (sample ? to_text(*sample) : "");
    if (options.print_env)
      say_lines(context, text);
    else
      print_result(text);
  }
  return good ? 0 : static_cast<int>(ErrorCode::difference);
}

}  // namespace

void add_check(Subcommands& commands) {
  commands.add<CheckOptions>("check", "Tell whether the engine would boot from a planes cache and packs",
                             declare, run);
}

}  // namespace planesmith
