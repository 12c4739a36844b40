// How many other pairs were used since a pair was used last (Mattson's stack distance): a pool of s slots
// that always drops the least recently used pair holds exactly the pairs at distance below s, so one pass
// gives the hits of every size.
#pragma once

#include <cstdint>
#include <vector>

#include "tiers/trace.h"

namespace planesmith {

class StackDistance {
 public:
  static constexpr std::uint32_t kFirst = UINT32_MAX;

  explicit StackDistance(std::uint64_t numbers);  // pairs are 0..numbers-1
  // Uses the pair; its distance before, kFirst where it was not used yet. O(log n).
  std::uint32_t use(Pair pair);
  static std::uint64_t bytes(std::uint64_t numbers);  // allocated

 private:
  // A time stamp for each use, in order; the bit of a pair's latest one is set. Counting set bits behind a
  // stamp gives the distance: whole words through a Fenwick tree over their counts.
  void mark(std::uint32_t at);
  void clear(std::uint32_t at);
  std::uint32_t marked_before(std::uint32_t at) const;
  void renumber();

  static constexpr std::uint32_t kNever = UINT32_MAX;
  std::vector<std::uint32_t> latest_;  // by pair
  std::vector<std::uint64_t> bits_;    // by stamp
  std::vector<std::uint32_t> sums_;    // Fenwick tree, 1-based, over words of bits_
  std::vector<Pair> owner_;            // by stamp, of set bits
  std::uint32_t next_ = 0, used_ = 0;
};

}  // namespace planesmith
