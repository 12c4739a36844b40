// Hit rate against pool size, for every size at once: overall, by layer and by window of the trace.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "base/context.h"
#include "tiers/trace.h"

namespace planesmith {

// Accesses by stack distance. A pool of s slots hits those at distances below s; a first use hits in none.
struct Distances {
  std::vector<std::uint64_t> at;  // by distance; as long as pairs were seen
  std::uint64_t accesses = 0;     // first uses included

  void add(std::uint32_t distance);
  std::uint64_t hits(std::uint64_t slots) const;
  double hit_rate(std::uint64_t slots) const;  // 0 where there were no accesses
  std::uint64_t most_hits() const { return hits(at.size()); }
  // The fewest slots that reach this share of all accesses; none: first uses alone forbid it.
  std::optional<std::uint64_t> slots_for(double hit_rate) const;
  // Where the curve bends most: the size farthest above the straight line from no slots to all pairs. 0: no
  // hits.
  std::uint64_t knee() const;
};

// What one pass over the trace gives. The pool is warm from one session to the next, as a server's is.
struct Usage {
  struct Window {  // about an equal share of the accesses
    std::uint64_t session = 0, first_tick = 0, last_tick = 0;
    std::uint64_t pairs = 0;  // distinct ones
    std::uint64_t fresh = 0;  // of them, not used in the window before
    Distances distances;
  };
  struct Layer {
    std::uint64_t layer = 0, pairs = 0;
    Distances distances;
    double gini = 0;   // of the uses of its experts; 0: all alike, towards 1: one takes all
    double top10 = 0;  // share of its uses that its hottest tenth of experts takes
  };
  std::uint64_t layers = 0, experts = 0, ticks = 0;
  std::uint64_t pairs = 0;  // distinct ones
  Distances all;
  std::vector<Window> windows;
  std::vector<Layer> by_layer;                     // those that were used
  std::vector<std::vector<std::uint64_t>> counts;  // uses by session and pair
  // Share of the hottest tenth of pairs that two sessions have in common, each session with the next.
  std::vector<double> stability;

  std::uint64_t count(Pair pair) const;  // over all sessions
  std::vector<Pair> hottest() const;     // pairs used, most often first, then ascending
};

// Error (usage): context.memory is too small for this many pairs.
Usage measure_usage(const Context& context, const Trace& trace);

}  // namespace planesmith
