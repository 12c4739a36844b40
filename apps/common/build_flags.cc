#include "common/build_flags.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>

#include "base/file.h"
#include "base/size.h"
#include "base/stream.h"
#include "base/text.h"
#include "checkpoint/files.h"
#include "checkpoint/fingerprint.h"
#include "common/flag_values.h"
#include "common/outlook.h"
#include "common/wait_for_others.h"
#include "manifest/profile.h"
#include "plan/describe.h"

namespace planesmith {
namespace {

std::string report_text(const BuildReport& report, const Plan& plan, const Identity& identity,
                        const std::vector<std::uint64_t>& busy, double seconds) {
  std::string out =
      fmt::format("identity  {} ({})\nlayers    {} converted, {} already there", printable(identity.id),
                  printable(identity.how), report.converted, report.finished);
  if (!busy.empty()) out += fmt::format(", {} left to another run", busy.size());
  out += '\n';
  for (const std::string& path : report.outputs) out += fmt::format("output    {}\n", printable(path));
  out += report.complete ? "complete  all layers are there, manifests are written\n"
         : busy.empty()
             ? "complete  no: layers are missing; the run that adds the last of them writes the manifests\n"
             : fmt::format("complete  no: another run is still writing layers {}; --wait waits for it\n",
                           number_list(busy, ","));
  if (report.converted == plan.layers.size() && seconds > 0)
    out += fmt::format(
        "speed     {}/s read, {}/s read and written, in {:.1f} s\n",
        short_size(static_cast<std::uint64_t>(static_cast<double>(plan.read) / seconds)),
        short_size(static_cast<std::uint64_t>(static_cast<double>(plan.read + plan.allocated()) / seconds)),
        seconds);
  return out;
}

// The command that checks whether the engine would boot from the result; where the engine never reads it
// (ENGINE.md section 2), the one that verifies the files.
std::string check_command(const BuildFlags& flags, const Plan& plan, const Model& model,
                          const BuildTarget& target) {
  const std::vector<format::Tier>& tiers = plan.request.tiers;
  const bool host = std::find(tiers.begin(), tiers.end(), format::Tier::base) != tiers.end();
  if (plan.request.cache && !traits(model.family).has_cache && !host) {
    std::string out = "verify-ckpt-id verify " + shell_quoted(target.cache_root);
    if (!tiers.empty())
      for (const std::string& directory : target.store.all()) out += " " + shell_quoted(directory);
    return out;
  }
  std::string out = "verify-ckpt-id check";
  const auto add = [&](std::string_view flag, const std::string& value) {
    out += fmt::format(" {} {}", flag, shell_quoted(value));
  };
  if (plan.request.cache) add("--planescache", target.cache_root);
  if (!target.store.all().empty()) add("--store", target.store.text());
  add("--ckpt-id", target.ckpt_id);
  if (flags.world != 1) add("--world", fmt::format("{}", flags.world));
  if (flags.rank != "all") add("--rank", flags.rank);
  if (flags.zero_mode != "auto") add("--zero-mode", flags.zero_mode);
  // Packs alone serve no resident mode: it needs a planes cache.
  if (flags.files.mode && (plan.request.cache || host)) add("--for", *flags.files.mode);
  add("--checkpoint", flags.checkpoint);
  return out + " --sample 64";
}

}  // namespace

void add_build_flags(CLI::App& app, BuildFlags& flags) {
  add_mode_flag(app, flags.files);
  add_identity_flags(app, flags.identity);
  app.add_option("--world", flags.world, "Number of tensor-parallel ranks that the model is cut into")
      ->check(CLI::Range(std::uint64_t{1}, format::kMostWorld))
      ->capture_default_str();
  add_rank_flag(app, flags.rank, "Rank to build for, or all of them in one pass");
  app.add_option("--zero-mode", flags.zero_mode, "Signs of zeros in requantized families: auto, sign, alt")
      ->check(CLI::IsMember({"auto", "sign", "alt"}))
      ->capture_default_str();
  app.add_option("--layers", flags.layers, "Only these layer indices, like 0-2,7 (default: all)");
  app.add_option("--drafts", flags.drafts,
                 "DSpark drafter blocks (mtp.0, mtp.1, ...) to convert too, as layers after the model's own")
      ->check(CLI::Range(std::uint64_t{0}, format::kMostDrafts))
      ->capture_default_str();
  app.add_flag("-f,--force", flags.force, "Rebuild layers that are there already");
  app.add_flag("--recheck", flags.recheck,
               "Read finished layers and rebuild those whose content differs from the record");
  app.add_flag("-n,--dry-run", flags.dry_run,
               "Check everything that can be checked and print the plan; write nothing");
  app.add_flag("--estimate", flags.estimate,
               "With --dry-run: also measure the disks for a second and estimate the time");
  app.add_flag("--wait", flags.wait,
               "Wait for layers that another run is writing, and write those that it leaves unfinished");
  app.add_flag("--json", flags.json, "Print one JSON document instead of text");
  add_output_flags(app, flags.output);
  add_backend_flags(app, flags.backend);
}

Trust trust_of(const BuildFlags& flags) {
  return flags.force ? Trust::nothing : flags.recheck ? Trust::content : Trust::record;
}

int run_build(Context& context, const BuildFlags& flags, BuildTarget target) {
  PlanRequest request;
  request.world = flags.world;
  request.rank = parse_rank(flags.rank);
  request.zero_mode = format::parse_zero_mode(flags.zero_mode);
  if (flags.layers) request.layers = parse_number_list(*flags.layers, "--layers");
  request.drafts = flags.drafts;
  target.trust = trust_of(flags);
  target.check_space = !flags.output.no_space_check;
  if (flags.output.group_shared) share_with_group(context);

  // First: GPUs start while the headers are read.
  const std::unique_ptr<Backend> backend = make_backend(backend_of(flags.backend));
  const Checkpoint checkpoint = Checkpoint::open(context, flags.checkpoint);
  const Model model = find_experts(checkpoint, request.drafts);
  if (!model.doubt.empty()) context.progress.warn(model.doubt);
  choose_files(context, flags.files, model, request);
  say_profile(context, model.geometry);
  if (flags.identity.by_content())
    StreamBuffers{context};  // refuse a cap that is too small for hashing now, not later
  const Plan plan = make_plan(model, request);
  target.source = source_fingerprint(context, checkpoint, model);
  const Workforce force = plan_workforce(context, checkpoint, model, plan, *backend);
  // A number of a GPU that does not exist is wrong use: nothing is made.
  if (flags.dry_run || flags.backend.gpus) backend->wait();

  if (flags.dry_run) {
    if (const std::string text =
            format::kernel_warning(plan.geometry, plan.shape, serves_split(plan.request));
        !text.empty())
      context.progress.say("warning: " + text);
    // The content id would need the whole checkpoint read. This stand-in names no existing file.
    if (flags.identity.by_content()) {
      content_files(context.os, flags.checkpoint);  // refuse now what cannot be identified
      target.ckpt_id = "content id";
    } else {
      target.ckpt_id = resolve_identity(context, flags.identity, flags.checkpoint).id;
    }
    if (flags.json)
      print_json(plan_json(plan, model, force.peak_memory));
    else
      print_result(describe(plan, model, force.peak_memory));
    const Outlook outlook = check_targets(context, checkpoint, plan, target);
    for (const std::string& remark : outlook.remarks) context.progress.warn(remark);
    DryRun run{outlook, flags.identity.by_content() ? "" : target.ckpt_id, target.store.all(), {}};
    if (!target.cache_root.empty()) run.directories.insert(run.directories.begin(), target.cache_root);
    if (flags.estimate) {
      std::vector<std::string> shards;
      for (const Shard& shard : checkpoint.shards()) shards.push_back(shard.path);
      run.rates = measure_disks(context, shards, outlook.file_systems.front().directory);
    }
    if (flags.json) {
      Json out = plan_json(plan, model, force.peak_memory);
      out["source"] = target.source;
      out["outlook"] = outlook_json(run);
      print_json(std::move(out));
    } else {
      print_result(outlook_text(context, run));
    }
    return 0;
  }
  const Identity identity = resolve_identity(context, flags.identity, flags.checkpoint);
  target.ckpt_id = identity.id;
  target.id_by_download = identity.by_download;
  for (const std::string& remark : check_targets(context, checkpoint, plan, target).remarks)
    context.progress.warn(remark);
  const auto started = std::chrono::steady_clock::now();
  const BuildReport report = until_others_are_done(context, flags.wait, [&](const Context& each, bool again) {
    if (again) target.trust = Trust::record;
    return build(each, checkpoint, model, plan, target, *backend);
  });
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - started).count();
  std::vector<std::uint64_t> busy;
  if (report.elsewhere != 0) busy = layers_missing(context, plan, target);

  if (flags.json) {
    Json out = plan_json(plan, model, force.peak_memory);
    out["ckpt_id"] = target.ckpt_id;
    out["source"] = target.source;
    out["layers_converted"] = report.converted;
    out["layers_finished"] = report.finished;
    out["layers_left_to_others"] = busy;
    out["complete"] = report.complete;
    out["outputs"] = report.outputs;
    out["backend"] = backend->describe();
    print_json(std::move(out));
  } else {
    print_result(report_text(report, plan, identity, busy, seconds));
  }
  if (report.complete)
    context.progress.say(
        printable(target.ckpt_id) == target.ckpt_id
            ? fmt::format("serve it with: export VLLM_MOE_W2_CKPT_ID={}", shell_quoted(target.ckpt_id))
            : "the identity has characters that cannot be shown; verify-ckpt-id check --print-env gives the "
              "line to serve with");
  if (report.complete) suggest_next(check_command(flags, plan, model, target));
  return busy.empty() ? 0 : static_cast<int>(ErrorCode::busy);
}

}  // namespace planesmith
