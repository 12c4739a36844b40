// Snapshots that the engine dumps of its FP4 pool (VLLM_MOE_W2_DELTA_DUMP): the experts it held at one tick.
// A file is one JSON object, or one object per line.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/context.h"
#include "tiers/trace.h"

namespace planesmith {

// Summary of a series of snapshots.
struct PoolHistory {
  std::uint64_t snapshots = 0, first_tick = 0, last_tick = 0;
  std::uint64_t slots = 0;                      // of the last snapshot
  std::uint64_t promotions = 0, evictions = 0;  // between the first and the last
  double occupancy = 0;                         // mean of held / slots
  double churn = 0;                  // mean share of held pairs that the previous snapshot did not hold
  std::uint64_t layers_covered = 0;  // in the last snapshot
  struct Held {
    std::uint64_t layer = 0, expert = 0, snapshots = 0;
  };
  std::vector<Held> held;  // by descending `snapshots`, then by layer and expert

  std::uint64_t ticks() const { return last_tick - first_tick; }
};

bool is_snapshot_file(Os& os, const std::string& path);  // decided by the first byte, a brace

// Errors: not JSON, a key missing or of another type, an expert that no model has.
PoolHistory read_snapshots(const Context& context, const std::vector<std::string>& paths);

}  // namespace planesmith
