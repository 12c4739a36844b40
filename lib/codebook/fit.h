// Codebooks: which K of the 15 e2m1 values replace all of them, chosen from
// the histogram of a group of weights. All arithmetic is in integers (levels
// doubled), so that results depend neither on order nor on the compiler.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

#include "format/number.h"

namespace planesmith {

// The weights that share a codebook.
//   tensor      one expert tensor; the optimum, whose zeros all take one sign
//   tensor_sym  one expert tensor; the best of the 21 sets {-b, -a, a, b}
//   expert      w1, w2 and w3 of one expert together
//   row         one row of one tensor
//   block32     32 neighbours in a row, which share one scale
enum class Granularity { tensor, tensor_sym, expert, row, block32 };
inline constexpr Granularity kGranularities[] = {Granularity::tensor, Granularity::tensor_sym,
                                                 Granularity::expert, Granularity::row, Granularity::block32};
std::string_view name(Granularity granularity);        // "tensor", "tensor-sym", ...
Granularity parse_granularity(std::string_view text);  // anything else is a usage Error

inline constexpr int kMinLevels = 2, kMaxLevels = 16;
inline constexpr int kGridLevels = 15;  // distinct values of e2m1; +0 and -0 count as one

// Usage errors: levels outside 2..16; tensor_sym with other than 4 levels or the identity (15, 16).
void check_levels(Granularity granularity, int levels);

// Elements with each nibble.
using Counts = std::array<std::uint64_t, 16>;
// The new nibble for each nibble.
using NibbleMap = std::array<std::uint8_t, 16>;

// Twice the i-th value of the grid, ascending: -12 -8 -6 -4 -3 -2 -1 0 1 2 3 4 6 8 12.
constexpr int grid_value(int i) {
  return i < 7 ? -format::twice_magnitude(static_cast<unsigned>(7 - i))
               : format::twice_magnitude(static_cast<unsigned>(i - 7));
}
// Position of a nibble's value in the grid.
constexpr int grid_index(unsigned nibble) {
  const int m = static_cast<int>(nibble & 7);
  return nibble & 8 ? 7 - m : 7 + m;
}
// The inverse; +0 for zero.
constexpr std::uint8_t grid_nibble(int i) {
  return static_cast<std::uint8_t>(i < 7 ? 15 - i : i - 7);
}
// For two levels a < b of the grid: the last value that is not nearer to b.
constexpr int last_nearer_to_lower(int a, int b) {
  int t = a;
  while (2 * grid_value(t + 1) <= grid_value(a) + grid_value(b)) ++t;
  return t;
}
// A set of grid values: bit i is the i-th.
using LevelSet = std::uint16_t;
// {-4, -1, 1, 4}, the codebook of the served planes.
inline constexpr LevelSet kCanonicalSet = 1 << 1 | 1 << 5 | 1 << 9 | 1 << 13;

bool is_symmetric(LevelSet levels);
std::string levels_text(LevelSet levels);  // "[-4.0, -1.0, 1.0, 4.0]"

// The optimum for `tensor`, by an exact one-dimensional dynamic program over the values that occur (fewer
// levels if fewer values occur); of equal sets the first in ascending order of where the last segment starts.
LevelSet fit_tensor(const Counts& counts, int levels);
// The best {-b, -a, a, b}, 0 < a < b; of equal sets the first in order of (a, b).
LevelSet fit_symmetric(const Counts& counts);
// The best of all sets of `levels` <= 15 grid values; of equal sets the first in lexicographic order of the
// ascending values. For expert, row and block32.
LevelSet fit_subset(const Counts& counts, int levels);
// The fit of the granularity; for levels >= 15 all 15 values, except for `tensor`.
LevelSet fit(Granularity granularity, const Counts& counts, int levels);

// Maps to the nearest level. Ties: for `tensor` the first in ascending order; otherwise a level of the
// value's own sign, then the smaller magnitude; a zero level has either sign. A value that becomes zero keeps
// its sign bit, so a set of all 15 values is the identity.
NibbleMap map_to(Granularity granularity, LevelSet levels);

// How far a mapped group is from the original.
// Sums over elements of doubled values, so squares are four times as large.
struct Deviation {
  std::uint64_t elements = 0;
  std::int64_t error = 0;           // of new - old, doubled
  std::uint64_t squared_error = 0;  // of (new - old)^2, four times
  std::uint64_t squared_value = 0;  // of old^2, four times
  Deviation& operator+=(const Deviation& other);

  double bias() const;       // mean of new - old
  double rms_error() const;  // root of the mean of (new - old)^2
  double rms_value() const;
  double relative_rms() const;  // root of sum (new - old)^2 / sum old^2
  double rms_ratio() const;  // rms_error() / rms_value(): the same but for rounding; the reference has both
};
Deviation deviation(const Counts& counts, const NibbleMap& map);

}  // namespace planesmith
