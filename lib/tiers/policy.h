// Replays of a trace through the engine's pool manager: which pairs would have been in the pool when they
// were used (docs/TIERS.md section 2).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/context.h"
#include "tiers/trace.h"

namespace planesmith {

// Order in which a tick's missing pairs are promoted: by (layer, expert); most often used first; one of each
// layer in turn. None: only the engine's confidence gate promotes (DELTA_POLICY=need), which a trace does not
// record.
enum class Order { sorted, freq, round_robin, none };
// Which pair leaves a full pool: least recently used; least often used, ever or with old uses fading.
enum class Victim { lru, lfu, aged_lfu };

struct Policy {
  std::string name;
  Order order = Order::freq;
  Victim victim = Victim::aged_lfu;
  bool belady = false;          // the optimum with knowledge of the future; nothing else here matters then
  std::uint64_t promote = 8;    // at most so many a tick (DELTA_PROMOTE)
  std::uint64_t threshold = 1;  // uses before a pair is promoted
  std::optional<std::uint64_t> layer_cap;  // slots that one layer may hold
  double hysteresis = 0;  // PROMO_HYST: a candidate replaces a victim only above this times its use + 4
};

// "NAME[:key=value...]". Names: engine (freq, aged-lfu), need, belady, or ORDER/VICTIM with sorted, freq,
// round-robin and lru, lfu, aged-lfu. Keys: promote, threshold, cap, hyst. Error (usage): anything else.
Policy parse_policy(std::string_view text);

struct Replay {
  std::string policy;
  std::uint64_t slots = 0;
  std::uint64_t accesses = 0, hits = 0;  // behind the warm-up
  std::uint64_t promotions = 0, evictions = 0, ticks = 0;
  std::uint64_t held = 0, layers_covered = 0;   // at the end
  std::uint64_t cold_median = 0, cold_p90 = 0;  // ticks since its last use, of pairs that were evicted

  double hit_rate() const {
    return accesses == 0 ? 0 : static_cast<double>(hits) / static_cast<double>(accesses);
  }
};

// One replay for each policy and size. The first 15 % of the ticks warm the pool up and count for nothing.
// Error (usage): belady, which needs 8 bytes an access, does not fit in context.memory.
std::vector<Replay> replay(const Context& context, const Trace& trace, const std::vector<Policy>& policies,
                           const std::vector<std::uint64_t>& slots, std::uint64_t ticks);

}  // namespace planesmith
