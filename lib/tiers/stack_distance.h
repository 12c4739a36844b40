// Mattson's stack distance: how many other pairs were used since the last use of a pair. An LRU pool of s
// slots holds exactly the pairs at distances below s, so one pass gives the hits of every size.
#pragma once

#include <cstdint>
#include <vector>

#include "tiers/trace.h"

namespace planesmith {

class StackDistance {
 public:
  static constexpr std::uint32_t kFirst = UINT32_MAX;

  explicit StackDistance(std::uint64_t numbers);  // pairs are 0..numbers-1
  // Records a use of the pair and returns its distance; kFirst: first use. O(log n), amortized.
  std::uint32_t use(Pair pair);
  static std::uint64_t bytes(std::uint64_t numbers);  // memory for so many pairs

 private:
  // Each use gets the next stamp; the bits of the pairs' latest stamps are set. The number of set bits after
  // a stamp is the distance; whole words are counted by a Fenwick tree.
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
