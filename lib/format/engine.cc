#include "format/engine.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "base/error.h"

namespace planesmith::format {
namespace {

struct Row {
  Mode mode;
  std::string_view name;
  ModeSwitches switches;
  Fp4Tier cache;
  std::vector<Tier> packs;
  std::string_view summary;
};

// ENGINE.md section 2.
const std::vector<Row>& table() {
  static const std::vector<Row> rows = {
      {Mode::resident,
       "resident",
       {false, true, false},
       Fp4Tier::nibble,
       {Tier::delta},
       "2-bit planes on the GPU, with a pool of FP4 experts beside them"},
      {Mode::resident_split,
       "resident-split",
       {false, true, true},
       Fp4Tier::quintal,
       {Tier::deltaq},
       "2-bit planes on the GPU, with a pool of quintal FP4 planes beside them"},
      {Mode::resident_2bit,
       "resident-2bit",
       {false, false, false},
       Fp4Tier::none,
       {},
       "2-bit planes on the GPU, no FP4"},
      {Mode::host,
       "host",
       {true, true, false},
       Fp4Tier::nibble,
       {Tier::base, Tier::fp4},
       "2-bit and FP4 planes on the host, the GPU holds a cache of both"},
      {Mode::host_split,
       "host-split",
       {true, true, true},
       Fp4Tier::quintal,
       {Tier::base, Tier::fp4q},
       "2-bit and quintal FP4 planes on the host, the GPU holds a cache of both"},
      {Mode::host_2bit,
       "host-2bit",
       {true, false, false},
       Fp4Tier::none,
       {Tier::base},
       "2-bit planes on the host, the GPU holds a cache of them, no FP4"},
  };
  return rows;
}

const Row& row(Mode mode) {
  return table()[static_cast<std::size_t>(mode)];
}

// Only the new engine has kernels for these, and not for split modes.
constexpr std::uint64_t kNewKs[] = {3584, 768, 384};

template <std::size_t N>
bool has(const std::uint64_t (&all)[N], std::uint64_t k) {
  return std::find(std::begin(all), std::end(all), k) != std::end(all);
}

}  // namespace

std::string_view name(Mode mode) {
  return row(mode).name;
}
std::string_view summary(Mode mode) {
  return row(mode).summary;
}
ModeSwitches switches(Mode mode) {
  return row(mode).switches;
}
Fp4Tier cache_fp4(Mode mode) {
  return row(mode).cache;
}
std::vector<Tier> packs(Mode mode) {
  return row(mode).packs;
}
bool opens(Mode mode, Tier tier) {
  const std::vector<Tier>& all = row(mode).packs;
  return std::find(all.begin(), all.end(), tier) != all.end();
}

std::string mode_names() {
  std::vector<std::string_view> names;
  for (const Row& r : table()) names.push_back(r.name);
  return fmt::format("{}", fmt::join(names, ", "));
}

Mode parse_mode(std::string_view text) {
  for (const Row& r : table())
    if (r.name == text) return r.mode;
  throw Error(ErrorCode::usage, "", fmt::format("mode '{}' is not one of {}", text, mode_names()));
}

Mode mode_of(const ModeSwitches& wanted) {
  for (const Row& r : table())
    if (r.switches.host == wanted.host && r.switches.fp4 == wanted.fp4 &&
        (!wanted.fp4 || r.switches.split == wanted.split))
      return r.mode;
  return Mode::resident;  // the table has a row for every combination
}

std::vector<Mode> modes_served(std::optional<Fp4Tier> cache, const std::vector<Tier>& tiers) {
  const auto there = [&](Tier tier) { return std::find(tiers.begin(), tiers.end(), tier) != tiers.end(); };
  std::vector<Mode> with_packs, without;
  for (const Row& r : table()) {
    const bool cache_fits =
        cache && (*cache == r.cache || (*cache == Fp4Tier::nibble && r.cache == Fp4Tier::none));
    const bool packs_fit = std::all_of(r.packs.begin(), r.packs.end(), there);
    if (packs_fit && !r.packs.empty() && (cache_fits || (!cache && r.switches.host)))
      with_packs.push_back(r.mode);
    else if (cache_fits && !r.switches.host)
      without.push_back(r.mode);
  }
  with_packs.insert(with_packs.end(), without.begin(), without.end());
  return with_packs;
}

std::string cache_use(std::optional<Mode> mode, bool has_cache) {
  if (!has_cache)
    return "never read: the engine has no planes cache for FP8 checkpoints; a source for packs only";
  if (!mode) return "read at every start of the engine";
  if (switches(*mode).host) return "read at start for layers that the packs do not list";
  return "read at every start of the engine, instead of the checkpoint's experts";
}

std::string pack_use(std::optional<Mode> mode, Tier tier) {
  if (!mode) return std::string(purpose(tier));
  if (!opens(*mode, tier)) return fmt::format("not opened in mode {}", name(*mode));
  return switches(*mode).host ? "opened at every start, instead of reading the checkpoint's experts"
                              : "opened at every start, the source of the pool of FP4 experts";
}

Kernels kernels_for(const RankShape& shape, bool split) {
  Kernels out;
  std::vector<std::uint64_t> needed = {shape.k13};
  if (shape.k2 != shape.k13) needed.push_back(shape.k2);
  for (const std::uint64_t k : needed) {
    if (has(kDefaultKs, k)) continue;
    (has(kNewKs, k) && !split ? out.new_only : out.absent).push_back(k);
  }
  return out;
}

std::string needed_ks(const RankShape& shape, bool split) {
  const Kernels kernels = kernels_for(shape, split);
  if (kernels.new_only.empty()) return "";
  return fmt::format("{},{}", fmt::join(kDefaultKs, ","), fmt::join(kernels.new_only, ","));
}

std::string kernel_warning(const Geometry& geometry, const RankShape& shape, bool split) {
  const Kernels kernels = kernels_for(shape, split);
  if (!kernels.absent.empty()) {
    std::vector<std::uint64_t> worlds;
    for (std::uint64_t world = 1; world <= 16; world *= 2) {
      try {
        if (kernels_for(rank_shape(geometry, world), split).absent.empty()) worlds.push_back(world);
      } catch (const Error&) {
        // does not divide
      }
    }
    return fmt::format("the engine has no kernels for K = {}{}, so it cannot serve this model at world {}{}",
                       fmt::join(kernels.absent, " and "), split ? " in split modes" : "", shape.world,
                       worlds.empty() ? "" : fmt::format("; it can at world {}", fmt::join(worlds, ", ")));
  }
  if (!kernels.new_only.empty())
    return fmt::format("kernels for K = {} are only in engines since {}, and only with VLLM_MOE_W2_KS={}",
                       fmt::join(kernels.new_only, " and "), kNewEngine, needed_ks(shape, split));
  return "";
}

}  // namespace planesmith::format
