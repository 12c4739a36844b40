#include "serve/judge.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <cmath>

#include "base/error.h"
#include "base/size.h"

namespace planesmith {
namespace {

class Judge {
 public:
  Judge(const Serve& serve, Findings& findings)
      : serve_(serve),
        mode_(format::switches(serve.mode)),
        has_cache_(serve.model == nullptr || !serve.model->family || traits(*serve.model->family).has_cache),
        findings_(findings) {}

  void run() {
    spared_reading();
    if (serve_.configuration != nullptr) started_with();
    if (serve_.model == nullptr) return;
    kernels();
    memory();
  }

 private:
  void problem(std::string text) { findings_.problems.push_back(std::move(text)); }
  void warn(std::string text) { findings_.warnings.push_back(std::move(text)); }
  bool told() const { return serve_.configuration != nullptr; }

  // Finds out whether the engine would read the checkpoint's experts at every start.
  void spared_reading() {
    constexpr const char* kReads =
        "the engine reads the checkpoint's experts and converts them at every start";
    if (mode_.host && !serve_.has_store) {
      const std::string text = fmt::format("no directory of packs{}, so {}; packs {} avoid that",
                                           told() ? " (VLLM_MOE_W2_STORE_DIR)" : "", kReads, pack_names());
      if (serve_.has_cache && has_cache_)
        warn(text);
      else
        problem(text);
    }
    if (!mode_.host && !serve_.has_cache)
      problem(fmt::format("no planes cache{}, so {}", told() ? " (VLLM_MOE_W2_PLANES_CACHE)" : "", kReads));
    if (!mode_.host && mode_.fp4 && !serve_.has_store && told())
      warn("no VLLM_MOE_W2_STORE_DIR: the FP4 planes are pinned in the host's memory");
  }

  std::string pack_names() const {
    std::vector<std::string_view> names;
    for (const format::Tier tier : format::packs(serve_.mode)) names.push_back(name(tier));
    return fmt::format("{}", fmt::join(names, " and "));
  }

  void started_with() {
    const EngineSettings& settings = serve_.configuration->settings;
    const Recipe& recipe = serve_.configuration->recipe;
    if (!settings.enabled)
      problem("VLLM_MOE_W2 is not 1: the engine's 2-bit path is off and none of these files is opened");
    if (settings.draft && !settings.num_layers)
      warn("VLLM_MOE_W2_DRAFT=1 without VLLM_MOE_W2_NUM_LAYERS: no drafter block counts as a layer");
    if (const auto size = argument_value(recipe.arguments, {"--tensor-parallel-size", "-tp"})) {
      std::uint64_t ranks = 0;
      const auto [end, error] = std::from_chars(size->data(), size->data() + size->size(), ranks);
      if (error != std::errc() || end != size->data() + size->size() || ranks == 0)
        problem(fmt::format("--tensor-parallel-size {} is not a number of ranks", *size));
      else if (ranks != serve_.world)
        problem(
            fmt::format("the server is started with --tensor-parallel-size {}, the files asked for are of "
                        "world {}",
                        ranks, serve_.world));
    }
    if (recipe.gpus && *recipe.gpus < serve_.world)
      warn(fmt::format("the recipe requires {} GPUs, and there are {} ranks", *recipe.gpus, serve_.world));
    if (!recipe.left_out.empty())
      warn(fmt::format("{} {} left out: say with --planescache what {{planes_cache}} stands for",
                       fmt::join(recipe.left_out, ", "), recipe.left_out.size() == 1 ? "is" : "are"));
    for (const std::string& argument : recipe.arguments)
      if (argument == "--enforce-eager") warn("--enforce-eager makes decoding about three times slower");
  }

  void kernels() {
    const format::RankShape shape = format::rank_shape(serve_.model->geometry, serve_.world);
    const bool split = mode_.split && mode_.fp4;
    if (const std::string text = format::kernel_warning(serve_.model->geometry, shape, split); !text.empty())
      warn(text);
    if (!told()) return;
    const std::vector<std::uint64_t>& loaded = serve_.configuration->settings.ks;
    const std::vector<std::uint64_t> absent = format::kernels_for(shape, split).absent;
    for (const std::uint64_t k : {shape.k13, shape.k2})
      if (std::find(loaded.begin(), loaded.end(), k) == loaded.end() &&
          std::find(absent.begin(), absent.end(), k) == absent.end())
        problem(fmt::format("VLLM_MOE_W2_KS does not name K = {}, which this shape needs: set it to {}", k,
                            format::needed_ks(shape, split).empty()
                                ? fmt::format("{}", fmt::join(format::kDefaultKs, ","))
                                : format::needed_ks(shape, split)));
  }

  void memory() {
    const auto gpu = serve_.gpu_bytes ? serve_.gpu_bytes
                     : told()         ? serve_.configuration->recipe.gpu_bytes
                                      : std::nullopt;
    if (!gpu) {
      if (mode_.host && !told())
        findings_.notes.push_back(
            "the pools named (VLLM_MOE_W2_BASE_CACHE_GB, VLLM_MOE_W2_DELTA_GB) are small enough for any "
            "card; --gpu-memory SIZE gives values for a card, size-tiers for a workload");
      return;
    }
    const Pools usual = usual_pools(serve_.mode, serve_.model, serve_.world, serve_.gpu_bytes);
    double delta = mode_.host ? usual.delta : mode_.fp4 ? EngineSettings{}.delta_gb : 0;
    double base = usual.base_cache;
    bool rest = false;
    if (told()) {
      const EngineSettings& settings = serve_.configuration->settings;
      delta = settings.switches.fp4 ? settings.delta_gb : 0;
      base = settings.base_cache_gb;
      rest = settings.switches.fp4 && settings.delta_auto;
    }
    const GpuMemory need =
        gpu_memory(serve_.mode, *serve_.model, serve_.world, delta, base, serve_.dense_bytes.value_or(0));
    const std::string sum = fmt::format(
        "{}pools {}{}, dense weights {}: {} of {} on each GPU; KV cache and activations, which are not "
        "counted, come on top",
        need.planes == 0 ? "" : fmt::format("2-bit planes {}, ", short_size(need.planes)),
        short_size(need.pools), rest ? " and what is left (auto)" : "",
        serve_.dense_bytes ? short_size(need.dense) : "not known (--checkpoint tells)",
        short_size(need.total()), short_size(*gpu));
    if (need.total() > *gpu)
      problem("not enough GPU memory: " + sum);
    else
      findings_.notes.push_back("memory: " + sum);
  }

  const Serve& serve_;
  const format::ModeSwitches mode_;
  const bool has_cache_;  // whether the engine reads a planes cache of this family
  Findings& findings_;
};

}  // namespace

void judge(const Serve& serve, Findings& findings) {
  Judge(serve, findings).run();
}

KnownModel as_configured(KnownModel model, const EngineSettings& settings, Findings& findings) {
  const std::uint64_t layers = model.geometry.layers;
  const std::uint64_t cutoff = settings.num_layers.value_or(layers);
  const auto drop = [&](std::uint64_t end) {
    model.layers.erase(std::lower_bound(model.layers.begin(), model.layers.end(), end), model.layers.end());
  };
  if (cutoff < layers) {
    findings.warnings.push_back(
        fmt::format("VLLM_MOE_W2_NUM_LAYERS={} of {} layers: the others are not 2-bit", cutoff, layers));
    model.geometry.layers = cutoff;
    model.geometry.drafts = 0;
    drop(cutoff);
  } else if (settings.draft) {
    model.geometry.drafts = cutoff - layers;
    drop(cutoff);
    for (std::uint64_t layer = layers; layer < cutoff; ++layer)
      if (!std::binary_search(model.layers.begin(), model.layers.end(), layer)) model.layers.push_back(layer);
  } else {
    model.geometry.drafts = 0;
    drop(layers);
    if (cutoff > layers)
      findings.warnings.push_back(fmt::format(
          "VLLM_MOE_W2_NUM_LAYERS={} of a model with {} layers, without VLLM_MOE_W2_DRAFT=1: packs have {} "
          "layers more than ours",
          cutoff, layers, cutoff - layers));
    model.geometry.layers = cutoff;
  }
  return model;
}

namespace {

std::uint64_t resident_planes(const KnownModel& model, std::uint64_t world) {
  const format::RankShape shape = format::rank_shape(model.geometry, world);
  std::uint64_t bytes = 0;
  for (const format::Part& part : format::cache_parts(format::Fp4Tier::none))
    bytes += model.layers.size() * model.geometry.experts * format::section_bytes(part.section, shape);
  return bytes;
}

}  // namespace

Pools usual_pools(format::Mode mode, const KnownModel* model, std::uint64_t world,
                  std::optional<std::uint64_t> gpu_bytes) {
  const format::ModeSwitches switches = format::switches(mode);
  Pools pools;
  if (!switches.host) return pools;
  constexpr double kSmallBase = 8, kSmallDelta = 2;
  const double gib = gpu_bytes ? static_cast<double>(*gpu_bytes) / static_cast<double>(kGiB) : 0;
  pools.base_cache = gpu_bytes ? std::max(std::floor(gib * 3 / 5), 1.0) : kSmallBase;
  if (switches.fp4) pools.delta = gpu_bytes ? std::max(std::floor(gib / 8), 1.0) : kSmallDelta;
  if (gpu_bytes && model != nullptr)
    pools.base_cache =
        std::min(pools.base_cache,
                 std::ceil(static_cast<double>(resident_planes(*model, world)) / static_cast<double>(kGiB)));
  return pools;
}

GpuMemory gpu_memory(format::Mode mode, const KnownModel& model, std::uint64_t world, double delta_gb,
                     double base_cache_gb, std::uint64_t dense_bytes) {
  const auto gib = [](double n) { return static_cast<std::uint64_t>(std::max(n, 0.0) * double(kGiB)); };
  GpuMemory need;
  if (format::switches(mode).host)
    need.pools = gib(base_cache_gb);
  else
    need.planes = resident_planes(model, world);
  need.pools += gib(delta_gb);
  need.dense = dense_bytes / world;
  return need;
}

}  // namespace planesmith
