// Dumps of the engine's FP4 pool (VLLM_MOE_W2_DELTA_DUMP): which experts it held at one tick. One JSON object
// in a file, or one on each line.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/context.h"
#include "tiers/trace.h"

namespace planesmith {

// What a series of dumps says together.
struct PoolHistory {
  std::uint64_t snapshots = 0, first_tick = 0, last_tick = 0;
  std::uint64_t slots = 0;                      // of the last
  std::uint64_t promotions = 0, evictions = 0;  // between the first and the last
  double occupancy = 0;                         // held / slots, mean
  double churn = 0;                  // share of pairs held that the snapshot before did not hold, mean
  std::uint64_t layers_covered = 0;  // in the last
  struct Held {
    std::uint64_t layer = 0, expert = 0, snapshots = 0;
  };
  std::vector<Held> held;  // by how many snapshots held them, then by layer and expert

  std::uint64_t ticks() const { return last_tick - first_tick; }
};

bool is_snapshot_file(Os& os, const std::string& path);  // by its first byte: an object

// Errors: not JSON, a key missing or of another type, an expert that no model has.
PoolHistory read_snapshots(const Context& context, const std::vector<std::string>& paths);

}  // namespace planesmith
