// Hit rates for all pool sizes at once: overall, by layer and by window of the trace.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "base/context.h"
#include "tiers/trace.h"

namespace planesmith {

// Accesses by stack distance. A pool of s slots hits accesses at distances below s; a first use never hits.
struct Distances {
  std::vector<std::uint64_t> at;  // accesses by distance, up to the largest distance seen
  std::uint64_t accesses = 0;     // first uses included

  void add(std::uint32_t distance);
  std::uint64_t hits(std::uint64_t slots) const;
  double hit_rate(std::uint64_t slots) const;  // 0 if there were no accesses
  std::uint64_t most_hits() const { return hits(at.size()); }
  // The fewest slots that reach this hit rate; none: no size does, because of first uses.
  std::optional<std::uint64_t> slots_for(double hit_rate) const;
  // The knee of the curve: the size at which it is farthest above the straight line from no slots to all
  // pairs. 0: no hits.
  std::uint64_t knee() const;
};

// Results of one pass over the trace. The pool stays warm from one session to the next, as on a server.
struct Usage {
  struct Window {  // windows have about equally many accesses
    std::uint64_t session = 0, first_tick = 0, last_tick = 0;
    std::uint64_t pairs = 0;  // distinct ones
    std::uint64_t fresh = 0;  // those not used in the previous window
    Distances distances;
  };
  struct Layer {
    std::uint64_t layer = 0, pairs = 0;
    Distances distances;
    double gini = 0;   // of the uses of its experts; 0: all equal, near 1: one expert takes all
    double top10 = 0;  // share of its uses that go to its hottest tenth of experts
  };
  std::uint64_t layers = 0, experts = 0, ticks = 0;
  std::uint64_t pairs = 0;  // distinct ones
  Distances all;
  std::vector<Window> windows;
  std::vector<Layer> by_layer;                     // layers that were used
  std::vector<std::vector<std::uint64_t>> counts;  // uses by session and pair
  // For each session and the next: the share of the hottest tenth of pairs that both have in common.
  std::vector<double> stability;

  std::uint64_t count(Pair pair) const;  // over all sessions
  std::vector<Pair> hottest() const;     // used pairs, by descending count, then ascending
};

// Error (usage): context.memory is too small for this many pairs.
Usage measure_usage(const Context& context, const Trace& trace);

}  // namespace planesmith
