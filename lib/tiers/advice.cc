#include "tiers/advice.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/size.h"
#include "format/pack.h"

namespace planesmith {
namespace {

constexpr double kBaseTarget = 0.99;
constexpr double kDeltaTarget = 0.95;
// Share of a GPU's memory for dense weights, KV cache and activations: 14.2 of 96 GiB in the profiles of
// ENGINE.md section 5.
constexpr double kKept = 0.15;

std::uint64_t slot_bytes(format::Tier tier, const format::Geometry& geometry, std::uint64_t world) {
  const format::RankShape shape = format::rank_shape(geometry, world);
  std::uint64_t bytes = 0;
  for (const format::Section section : format::slot_sections(tier))
    bytes += format::section_bytes(section, shape);
  return bytes;
}

// The tier of the mode's FP4 pool; none: the mode has no FP4 tier.
std::optional<format::Tier> delta_tier(format::Mode mode) {
  for (const format::Tier tier : format::packs(mode))
    if (tier != format::Tier::base) return tier;
  return std::nullopt;
}

double hundredths_of_gib(std::uint64_t bytes) {
  return std::ceil(static_cast<double>(bytes) / static_cast<double>(kGiB) * 100) / 100;
}

// Slots that get this share of the hits of an unlimited pool.
std::uint64_t wanted_slots(const Distances& curve, double share) {
  const double most = static_cast<double>(curve.most_hits()) / static_cast<double>(curve.accesses);
  return curve.slots_for(share * most).value_or(0);
}

PoolAdvice pool(const Distances& curve, std::uint64_t slot_bytes, double target,
                std::optional<std::uint64_t>& left) {
  PoolAdvice out;
  out.slot_bytes = slot_bytes;
  out.slots = wanted_slots(curve, target);
  if (left) out.slots = std::min(out.slots, *left / slot_bytes);
  // Rounding up must not ask for more than there is.
  while (left && out.slots != 0 &&
         hundredths_of_gib(out.slots * slot_bytes) * static_cast<double>(kGiB) > static_cast<double>(*left))
    --out.slots;
  out.gib = hundredths_of_gib(out.slots * slot_bytes);
  out.hit_rate = curve.hit_rate(out.slots);
  if (left) *left -= std::min(*left, out.slots * slot_bytes);
  return out;
}

}  // namespace

std::uint64_t pool_slot_bytes(format::Mode mode, const format::Geometry& geometry, std::uint64_t world) {
  return slot_bytes(delta_tier(mode).value_or(format::Tier::base), geometry, world);
}

std::vector<ModeAdvice> advise(const format::Geometry& geometry, std::uint64_t sparse_layers,
                               std::uint64_t world, const Distances& curve, const Budget& budget) {
  const std::uint64_t base_slot = slot_bytes(format::Tier::base, geometry, world);
  const std::uint64_t planes = sparse_layers * geometry.experts * base_slot;
  std::vector<ModeAdvice> out;
  for (const format::Mode mode : format::kModes) {
    ModeAdvice advice;
    advice.mode = mode;
    advice.planes = planes;
    const std::uint64_t kept =
        static_cast<std::uint64_t>(kKept * static_cast<double>(budget.gpu_memory.value_or(0)));
    std::optional<std::uint64_t> gpu = budget.gpu_memory;
    if (gpu) *gpu -= kept;
    if (format::switches(mode).host) {
      advice.base = pool(curve, base_slot, kBaseTarget, gpu);
      const std::uint64_t ram = std::min(budget.ram.value_or(planes), planes);
      advice.base_ram_gb = hundredths_of_gib(ram);
      if (ram < planes)
        advice.note = fmt::format("{} of {} of 2-bit planes fit in --ram; the rest is read from the pack",
                                  exact_size(ram), exact_size(planes));
    } else if (gpu) {
      if (*gpu < planes) {
        advice.note = fmt::format(
            "does not fit: the 2-bit planes alone take {}, and dense weights, KV cache and activations need "
            "about {}",
            exact_size(planes), short_size(kept));
        out.push_back(advice);
        continue;
      }
      *gpu -= planes;
    }
    if (const auto tier = delta_tier(mode))
      advice.delta = pool(curve, slot_bytes(*tier, geometry, world), kDeltaTarget, gpu);
    if (advice.note.empty() && budget.gpu_memory)
      advice.note = fmt::format("{} of --gpu-memory are left for dense weights, KV cache and activations",
                                short_size(kept + gpu.value_or(0)));
    out.push_back(advice);
  }
  return out;
}

}  // namespace planesmith
