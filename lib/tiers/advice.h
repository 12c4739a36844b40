// How much memory each tier should get in each mode, from a hit-rate curve: the values of the engine's
// variables (ENGINE.md sections 1 and 2).
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
  // Bytes. gpu_memory: of one GPU; 15 % of it stay free for dense weights, KV cache and activations. ram: of
  // the host, for one rank.
  std::optional<std::uint64_t> gpu_memory, ram;
};

// A pool on one rank, with as many slots as the curve suggests and the budget allows.
struct PoolAdvice {
  std::uint64_t slot_bytes = 0, slots = 0;
  double hit_rate = 0;
  double gib = 0;  // the variable's value, rounded up to hundredths so that `slots` fit
};

struct ModeAdvice {
  format::Mode mode = format::Mode::resident;
  std::uint64_t planes = 0;         // bytes of 2-bit planes and scales of all experts of the rank
  std::optional<PoolAdvice> delta;  // DELTA_GB; none: no FP4 tier
  std::optional<PoolAdvice> base;   // BASE_CACHE_GB; none: the planes are resident
  std::optional<double> base_ram_gb;
  std::string note;  // what does not fit, or what was not counted; empty: nothing
};

// sparse_layers: number of layers with routed experts. If the budget allows it, the FP4 pool gets 95 % of the
// hits of an unlimited pool, and the cache of 2-bit planes 99 %, since a miss there waits for the host. The
// cache is sized first.
std::vector<ModeAdvice> advise(const format::Geometry& geometry, std::uint64_t sparse_layers,
                               std::uint64_t world, const Distances& curve, const Budget& budget);

// Bytes of a slot in the mode's FP4 pool; without an FP4 tier, in the cache of 2-bit planes.
std::uint64_t pool_slot_bytes(format::Mode mode, const format::Geometry& geometry, std::uint64_t world);

}  // namespace planesmith
