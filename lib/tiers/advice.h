// From a curve to the values that the engine is given: how much memory each tier deserves in each mode
// (ENGINE.md sections 1 and 2).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "format/engine.h"
#include "format/geometry.h"
#include "tiers/curve.h"

namespace planesmith {

struct Budget {
  // Bytes: of one GPU, of which 15 % are left for dense weights, KV cache and activations; of the host for
  // one rank.
  std::optional<std::uint64_t> gpu_memory, ram;
};

// A pool on one rank: as many slots as the curve asks for and the budget allows.
struct PoolAdvice {
  std::uint64_t slot_bytes = 0, slots = 0;
  double hit_rate = 0;
  double gib = 0;  // the value of its variable: rounded up to hundredths, so that `slots` fit
};

struct ModeAdvice {
  format::Mode mode = format::Mode::resident;
  std::uint64_t planes = 0;         // bytes of 2-bit planes and scales of all experts of the rank
  std::optional<PoolAdvice> delta;  // DELTA_GB; none: no FP4 tier
  std::optional<PoolAdvice> base;   // BASE_CACHE_GB; none: the planes are resident
  std::optional<double> base_ram_gb;
  std::string note;  // what does not fit, or what was left out of account; empty: nothing
};

// Sparse layers: how many layers have routed experts. Where the budget allows, the FP4
// pool has 95 % of the hits that any size has, a cache of the 2-bit planes 99 %, since a miss there waits for
// the host; the cache comes first.
std::vector<ModeAdvice> advise(const format::Geometry& geometry, std::uint64_t sparse_layers,
                               std::uint64_t world, const Distances& curve, const Budget& budget);

// Bytes of a slot of the pool that a mode has; of the cache of 2-bit planes where it has no FP4 tier.
std::uint64_t pool_slot_bytes(format::Mode mode, const format::Geometry& geometry, std::uint64_t world);

}  // namespace planesmith
