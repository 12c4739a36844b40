// Replays a trace through a model of the engine's pool manager: which pairs would have been in the pool when
// they were used (docs/TIERS.md section 2).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/context.h"
#include "tiers/trace.h"

namespace planesmith {

// Order in which a tick's missing pairs are promoted. sorted: by (layer, expert); freq: most used first;
// round_robin: one of each layer in turn; none: only the engine's confidence gate promotes
// (DELTA_POLICY=need), which a trace does not record.
enum class Order { sorted, freq, round_robin, none };
// Which pair is evicted from a full pool: the least recently used, or the least often used; aged: old uses
// fade.
enum class Victim { lru, lfu, aged_lfu };

struct Policy {
  std::string name;
  Order order = Order::freq;
  Victim victim = Victim::aged_lfu;
  bool belady = false;          // the optimum, which knows the future; the other members are ignored
  std::uint64_t promote = 8;    // most promotions in a tick (DELTA_PROMOTE)
  std::uint64_t threshold = 1;  // uses before a pair is promoted
  std::optional<std::uint64_t> layer_cap;  // most slots of one layer
  double hysteresis = 0;  // PROMO_HYST: above 1, a candidate needs more uses than this times the victim's + 4
};

// "NAME[:key=value...]". Names: engine (freq, aged-lfu), need, belady, or ORDER/VICTIM with sorted, freq,
// round-robin and lru, lfu, aged-lfu. Keys: promote, threshold, cap, hyst. Error (usage): anything else.
Policy parse_policy(std::string_view text);

// All names that parse_policy takes: engine, need, belady, sorted/lru, ...
std::vector<std::string> policy_names();

struct Replay {
  std::string policy;
  std::uint64_t slots = 0;
  std::uint64_t accesses = 0, hits = 0;  // after the warm-up
  std::uint64_t promotions = 0, evictions = 0, ticks = 0;
  std::uint64_t held = 0, layers_covered = 0;   // at the end
  std::uint64_t cold_median = 0, cold_p90 = 0;  // ticks between last use and eviction

  double hit_rate() const {
    return accesses == 0 ? 0 : static_cast<double>(hits) / static_cast<double>(accesses);
  }
};

// One replay for each policy and size. The first 15 % of the ticks warm up the pool and are not counted.
// Error (usage): belady, which needs 8 bytes for each access, does not fit in context.memory.
std::vector<Replay> replay(const Context& context, const Trace& trace, const std::vector<Policy>& policies,
                           const std::vector<std::uint64_t>& slots, std::uint64_t ticks);

}  // namespace planesmith
