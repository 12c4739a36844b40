// size-tiers: computes from routing traces how much memory each tier should get.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "base/size.h"
#include "base/text.h"
#include "common/geometry_flags.h"
#include "common/output.h"
#include "common/program.h"
#include "page/page.h"
#include "store/store.h"
#include "tiers/heat.h"
#include "tiers/page.h"
#include "tiers/report.h"

using namespace planesmith;

namespace {

struct Flags {
  std::vector<std::string> traces, policies;
  std::string slots, gpu_memory, ram, planescache, report, heat;
  GeometryFlags geometry;
  std::uint64_t world = 1;
  double token_rate = TierReport{}.token_rate;
  bool json = false;
};

// For --help and completion; what stands behind a colon is written by hand.
std::string policies_type() {
  std::vector<std::string> words = policy_names();
  words.push_back("...");
  return fmt::format("TEXT:{{{}}}", fmt::join(words, ","));
}

void declare(CLI::App& app, Flags& flags) {
  app.add_option("TRACE", flags.traces,
                 "Routing captures (.npy, rows of tick, layer, expert; each file a session), or dumps of the "
                 "FP4 pool (JSON, one object or one a line)")
      ->required();
  app.add_option("--slots", flags.slots,
                 "Pool sizes to report, in slots (16,64,100-110); default: powers of two");
  app.add_option("--policy", flags.policies,
                 "Replay policies at these sizes: engine, need, belady, or ORDER/VICTIM of sorted, freq, "
                 "round-robin and lru, lfu, aged-lfu; with :promote=N, :threshold=N, :cap=N, :hyst=X")
      ->type_name(policies_type())
      ->delimiter(',');
  app.add_option("--gpu-memory", flags.gpu_memory,
                 "Memory of one GPU (96GiB): limits the advice; 15 % of it stay free for dense weights, KV "
                 "cache and activations");
  app.add_option("--ram", flags.ram, "Memory of the host for one rank: limits the advice");
  add_geometry_flags(app, flags.geometry);
  app.add_option("--planescache", flags.planescache,
                 "Take the model's geometry from this cache or pack store");
  app.add_option("--world", flags.world, "Tensor-parallel ranks")
      ->check(CLI::Range(1, 4096))
      ->capture_default_str();
  app.add_option("--token-rate", flags.token_rate,
                 "Tokens per second, one tick each, for the load on the bus")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  app.add_option("--report", flags.report, "Write a self-contained page with curves and maps to this file");
  app.add_option("--write-heat", flags.heat, "Write the engine's heat files for the packs in this store");
  app.add_flag("--json", flags.json, "Print one JSON document instead of text");
}

std::optional<KnownModel> find_model(const Context& context, const Flags& flags) {
  if (std::optional<KnownModel> told = told_model(context.os, flags.geometry)) return told;
  if (flags.planescache.empty()) return std::nullopt;
  const Store store = scan_store(context.os, flags.planescache, flags.planescache);
  for (const FoundCache& cache : store.caches)
    if (cache.model) return cache.model;
  for (const FoundPack& pack : store.packs)
    if (pack.model) return pack.model;
  throw Error(flags.planescache, "holds no cache or pack with a manifest that has the model's geometry");
}

// Powers of two below the number of pairs, and that number.
std::vector<std::uint64_t> usual_slots(std::uint64_t pairs) {
  std::vector<std::uint64_t> slots;
  for (std::uint64_t n = 1; n < pairs; n *= 2) slots.push_back(n);
  if (pairs != 0) slots.push_back(pairs);
  return slots;
}

void measure(const Context& context, const Flags& flags, TierReport& report) {
  const std::vector<Policy> policies = [&] {
    std::vector<Policy> out;
    for (const std::string& text : flags.policies) out.push_back(parse_policy(text));
    return out;
  }();
  context.progress.begin("read traces", 0);
  const std::uint64_t layers = report.model ? report.model->geometry.layers + 1 : 0;
  const std::uint64_t experts = report.model ? report.model->geometry.experts : 0;
  const Trace trace(context, flags.traces, layers, experts);
  if (report.model && trace.experts() != experts)
    throw Error(flags.traces.front(),
                fmt::format("uses expert {}, but the model ({}) has {} experts in a layer",
                            trace.experts() - 1, report.model->source, experts));
  report.usage = measure_usage(context, trace);
  report.slots =
      flags.slots.empty() ? usual_slots(report.usage->pairs) : parse_number_list(flags.slots, "--slots");
  if (!policies.empty()) report.replays = replay(context, trace, policies, report.slots, report.usage->ticks);
  context.progress.end();
}

std::vector<HeatPlace> heat_of(const TierReport& report) {
  std::vector<HeatPlace> heat;
  if (report.usage)
    for (const Pair pair : report.usage->hottest())
      heat.push_back({pair / report.usage->experts, pair % report.usage->experts});
  else
    for (const PoolHistory::Held& held : report.history->held) heat.push_back({held.layer, held.expert});
  return heat;
}

int run(const Context& context, const Flags& flags) {
  TierReport report;
  report.traces = flags.traces;
  report.model = find_model(context, flags);
  report.world = flags.world;
  report.token_rate = flags.token_rate;
  if (!flags.report.empty()) require_plotting_library();
  const auto dumps = std::count_if(flags.traces.begin(), flags.traces.end(), [&](const std::string& path) {
    return is_snapshot_file(context.os, path);
  });
  if (dumps == 0)
    measure(context, flags, report);
  else if (static_cast<std::size_t>(dumps) == flags.traces.size())
    report.history = read_snapshots(context, flags.traces);
  else
    throw Error(ErrorCode::usage, "", "captures and dumps of the pool cannot be mixed in one run");
  if (report.history && (!flags.policies.empty() || !flags.slots.empty()))
    throw Error(ErrorCode::usage, "",
                "--slots and --policy need routing captures: a dump of the pool has no accesses");
  if (report.usage && report.model) {
    Budget budget;
    if (!flags.gpu_memory.empty()) budget.gpu_memory = parse_size(flags.gpu_memory, "--gpu-memory");
    if (!flags.ram.empty()) budget.ram = parse_size(flags.ram, "--ram");
    report.advice =
        advise(report.model->geometry, report.model->layers.size(), flags.world, report.usage->all, budget);
  }
  if (!flags.heat.empty()) {
    report.heat = write_heat(context, flags.heat, heat_of(report));
    suggest_next("verify-ckpt-id list --store " + shell_quoted(flags.heat));
  }
  if (!flags.report.empty()) write_output(context, flags.report, tiers_page(report));
  if (flags.json)
    print_json(to_json(report));
  else
    print_result(to_text(report));
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("Computes how much memory each tier should get, from traces of which experts a model uses.",
               "size-tiers");
  CommonFlags common;
  Flags flags;
  declare(app, flags);
  add_common_flags(app, common);
  return run_program(app, argc, argv, common, [&](Context& context) { return run(context, flags); });
}
