#include "tiers/stack_distance.h"

#include <algorithm>
#include <bit>

namespace planesmith {
namespace {

// Stamps per pair. Renumbering costs one step per stamp, so it adds a constant number of steps per use.
constexpr std::uint64_t kStamps = 4;

std::uint64_t words(std::uint64_t numbers) {
  return (numbers * kStamps + 63) / 64 + 1;
}

}  // namespace

StackDistance::StackDistance(std::uint64_t numbers)
    : latest_(numbers, kNever),
      bits_(words(numbers)),
      sums_(words(numbers) + 1),
      owner_(words(numbers) * 64) {}

std::uint64_t StackDistance::bytes(std::uint64_t numbers) {
  return numbers * sizeof(std::uint32_t) + words(numbers) * (8 + 4 + 64 * sizeof(Pair));
}

void StackDistance::mark(std::uint32_t at) {
  bits_[at / 64] |= std::uint64_t{1} << at % 64;
  for (std::size_t i = at / 64 + 1; i < sums_.size(); i += i & -i) ++sums_[i];
}

void StackDistance::clear(std::uint32_t at) {
  bits_[at / 64] &= ~(std::uint64_t{1} << at % 64);
  for (std::size_t i = at / 64 + 1; i < sums_.size(); i += i & -i) --sums_[i];
}

std::uint32_t StackDistance::marked_before(std::uint32_t at) const {
  const std::uint64_t below = bits_[at / 64] & ((std::uint64_t{1} << at % 64) - 1);
  auto n = static_cast<std::uint32_t>(std::popcount(below));
  for (std::size_t i = at / 64; i != 0; i -= i & -i) n += sums_[i];
  return n;
}

void StackDistance::renumber() {
  std::vector<Pair> order;
  order.reserve(used_);
  for (std::uint32_t at = 0; at < next_; ++at)
    if (bits_[at / 64] >> at % 64 & 1) order.push_back(owner_[at]);
  std::fill(bits_.begin(), bits_.end(), 0);
  std::fill(sums_.begin(), sums_.end(), 0);
  next_ = 0;
  for (const Pair pair : order) {
    latest_[pair] = next_;
    owner_[next_] = pair;
    mark(next_++);
  }
}

std::uint32_t StackDistance::use(Pair pair) {
  if (next_ == owner_.size()) renumber();
  std::uint32_t distance = kFirst;
  if (const std::uint32_t before = latest_[pair]; before != kNever) {
    distance = used_ - marked_before(before) - 1;
    clear(before);
  } else {
    ++used_;
  }
  latest_[pair] = next_;
  owner_[next_] = pair;
  mark(next_++);
  return distance;
}

}  // namespace planesmith
