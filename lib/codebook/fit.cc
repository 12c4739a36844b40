#include "codebook/fit.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <tuple>
#include <vector>

#include "base/error.h"

namespace planesmith {
namespace {

constexpr std::int64_t kInfinite = std::numeric_limits<std::int64_t>::max();
constexpr LevelSet kWholeGrid = (1 << kGridLevels) - 1;

constexpr LevelSet bit(int i) {
  return static_cast<LevelSet>(1 << i);
}
constexpr std::int64_t square(std::int64_t x) {
  return x * x;
}

// Elements with each grid value.
std::array<std::int64_t, kGridLevels> on_grid(const Counts& counts) {
  std::array<std::int64_t, kGridLevels> weights{};
  for (unsigned n = 0; n < 16; ++n) weights[grid_index(n)] += static_cast<std::int64_t>(counts[n]);
  return weights;
}

// last_nearer_to_lower(a, b), for the many calls of fit_subset.
constexpr auto kSplit = [] {
  std::array<std::array<int, kGridLevels>, kGridLevels> split{};
  for (int a = 0; a < kGridLevels; ++a)
    for (int b = a + 1; b < kGridLevels; ++b) split[a][b] = last_nearer_to_lower(a, b);
  return split;
}();

double ratio(double a, double b) {
  return b == 0 ? 0 : a / b;
}

}  // namespace

std::string_view name(Granularity granularity) {
  switch (granularity) {
    case Granularity::tensor:
      return "tensor";
    case Granularity::tensor_sym:
      return "tensor-sym";
    case Granularity::expert:
      return "expert";
    case Granularity::row:
      return "row";
    case Granularity::block32:
      return "block32";
  }
  return "";
}

Granularity parse_granularity(std::string_view text) {
  for (const Granularity granularity : kGranularities)
    if (name(granularity) == text) return granularity;
  throw Error(ErrorCode::usage, "",
              fmt::format("'{}' is not a granularity; use tensor, tensor-sym, expert, row or block32", text));
}

void check_levels(Granularity granularity, int levels) {
  if (levels < kMinLevels || levels > kMaxLevels)
    throw Error(ErrorCode::usage, "",
                fmt::format("{} levels: a codebook has {} to {}", levels, kMinLevels, kMaxLevels));
  if (granularity == Granularity::tensor_sym && levels != 4 && levels < kGridLevels)
    throw Error(
        ErrorCode::usage, "",
        fmt::format("tensor-sym chooses among sets {{-b, -a, a, b}}, so it has 4 levels (or 15 and 16: the "
                    "identity), not {}; the other granularities have any number",
                    levels));
}

bool is_symmetric(LevelSet levels) {
  for (int i = 0; i < 7; ++i)
    if ((levels >> i & 1) != (levels >> (14 - i) & 1)) return false;
  return true;
}

std::string levels_text(LevelSet levels) {
  std::string text;
  for (int i = 0; i < kGridLevels; ++i)
    if (levels & bit(i)) text += fmt::format("{}{:.1f}", text.empty() ? "" : ", ", grid_value(i) / 2.0);
  return "[" + text + "]";
}

LevelSet fit_tensor(const Counts& counts, int levels) {
  struct Point {
    int index;  // in the grid
    std::int64_t weight;
  };
  std::vector<Point> points;
  const auto weights = on_grid(counts);
  for (int i = 0; i < kGridLevels; ++i)
    if (weights[i] != 0) points.push_back({i, weights[i]});
  const int n = static_cast<int>(points.size());
  if (levels >= n) {
    LevelSet all = 0;
    for (const Point& point : points) all |= bit(point.index);
    return all;
  }

  // segment[i][j]: points i..j mapped to one level, the best of those points.
  struct Best {
    std::int64_t cost = kInfinite;
    int at = 0;
  };
  using Table = std::array<std::array<Best, kGridLevels>, kGridLevels + 1>;
  Table segment;
  for (int i = 0; i < n; ++i)
    for (int j = i; j < n; ++j)
      for (int level = i; level <= j; ++level) {
        std::int64_t cost = 0;
        for (int p = i; p <= j; ++p)
          cost += points[p].weight * square(grid_value(points[p].index) - grid_value(points[level].index));
        if (cost < segment[i][j].cost) segment[i][j] = {cost, level};
      }
  // best[k][j]: points 0..j mapped to k levels; `at` is where the last segment starts.
  Table best;
  best[1] = segment[0];
  for (int j = 0; j < n; ++j) best[1][j].at = 0;
  for (int k = 2; k <= levels; ++k)
    for (int j = k - 1; j < n; ++j)
      for (int start = k - 1; start <= j; ++start) {
        const std::int64_t cost = best[k - 1][start - 1].cost + segment[start][j].cost;
        if (cost < best[k][j].cost) best[k][j] = {cost, start};
      }
  LevelSet set = 0;
  for (int k = levels, end = n - 1; k >= 1; --k) {
    const int start = best[k][end].at;
    set |= bit(points[segment[start][end].at].index);
    end = start - 1;
  }
  return set;
}

LevelSet fit_symmetric(const Counts& counts) {
  std::int64_t least = kInfinite;
  LevelSet set = 0;
  for (unsigned a = 1; a < 8; ++a)
    for (unsigned b = a + 1; b < 8; ++b) {
      std::int64_t cost = 0;
      for (unsigned n = 0; n < 16; ++n) {
        const int m = format::twice_magnitude(n);
        cost += static_cast<std::int64_t>(counts[n]) *
                std::min(square(m - format::twice_magnitude(a)), square(m - format::twice_magnitude(b)));
      }
      if (cost >= least) continue;
      least = cost;
      set = 0;
      for (const unsigned m : {a, b})
        set |= static_cast<LevelSet>(bit(grid_index(m)) | bit(grid_index(m | 8)));
    }
  return set;
}

LevelSet fit_subset(const Counts& counts, int levels) {
  const auto weights = on_grid(counts);
  // Elements with the values up to t, and the sum of those elements.
  std::array<std::int64_t, kGridLevels> count, sum;
  for (int t = 0; t < kGridLevels; ++t) {
    count[t] = weights[t] + (t == 0 ? 0 : count[t - 1]);
    sum[t] = weights[t] * grid_value(t) + (t == 0 ? 0 : sum[t - 1]);
  }
  // What adding level a below the lowest level b saves:
  // elements nearer to a cost (x - a)^2 instead of (x - b)^2.
  const auto saving = [&](int a, int b) {
    const int va = grid_value(a), vb = grid_value(b), t = kSplit[a][b];
    return (vb - va) * (count[t] * (va + vb) - 2 * sum[t]);
  };
  // cost[a], set[a]: the least cost of all elements with a as the lowest of k levels, and the first set that
  // has it. What a lower level saves depends only on the lowest level so far. Of equal sets the one that
  // continues with the lower level comes first, so the result is the first that a search through all subsets
  // in lexicographic order finds.
  std::array<std::int64_t, kGridLevels> cost{};
  std::array<LevelSet, kGridLevels> set;
  for (int a = 0; a < kGridLevels; ++a) {
    for (int t = 0; t < kGridLevels; ++t) cost[a] += weights[t] * square(grid_value(t) - grid_value(a));
    set[a] = bit(a);
  }
  for (int k = 2; k <= levels; ++k)
    for (int a = levels - k; a <= kGridLevels - k; ++a) {  // ascending: those above a still have k - 1 levels
      int best = a + 1;
      std::int64_t least = kInfinite;
      for (int b = a + 1; b <= kGridLevels - k + 1; ++b) {
        const std::int64_t x = cost[b] - saving(a, b);
        if (x < least) {
          least = x;
          best = b;
        }
      }
      cost[a] = least;
      set[a] = bit(a) | set[best];
    }
  const auto end = cost.begin() + kGridLevels - levels + 1;
  return set[static_cast<std::size_t>(std::min_element(cost.begin(), end) - cost.begin())];
}

LevelSet fit(Granularity granularity, const Counts& counts, int levels) {
  if (granularity == Granularity::tensor) return fit_tensor(counts, levels);
  if (levels >= kGridLevels) return kWholeGrid;
  return granularity == Granularity::tensor_sym ? fit_symmetric(counts) : fit_subset(counts, levels);
}

NibbleMap map_to(Granularity granularity, LevelSet levels) {
  NibbleMap map{};
  for (unsigned n = 0; n < 16; ++n) {
    const bool negative = n >= 8;
    using Order = std::tuple<int, bool, int>;  // distance, has the other sign, magnitude: the least wins
    Order least{std::numeric_limits<int>::max(), false, 0};
    int nearest = grid_index(n);
    for (int i = 0; i < kGridLevels; ++i) {
      if (!(levels & bit(i))) continue;
      const int level = grid_value(i), distance = std::abs(level - format::twice_value(n));
      const Order order = granularity == Granularity::tensor
                              ? Order{distance, false, 0}
                              : Order{distance, level != 0 && (level < 0) != negative, std::abs(level)};
      if (order < least) {
        least = order;
        nearest = i;
      }
    }
    map[n] = nearest == grid_index(0) && negative ? 8 : grid_nibble(nearest);
  }
  return map;
}

Deviation& Deviation::operator+=(const Deviation& other) {
  elements += other.elements;
  error += other.error;
  squared_error += other.squared_error;
  squared_value += other.squared_value;
  return *this;
}

Deviation deviation(const Counts& counts, const NibbleMap& map) {
  Deviation sum;
  for (unsigned n = 0; n < 16; ++n) {
    const std::int64_t old = format::twice_value(n), error = format::twice_value(map[n]) - old;
    sum.elements += counts[n];
    sum.error += static_cast<std::int64_t>(counts[n]) * error;
    sum.squared_error += counts[n] * static_cast<std::uint64_t>(square(error));
    sum.squared_value += counts[n] * static_cast<std::uint64_t>(square(old));
  }
  return sum;
}

// Sums stay far below 2^53 times their unit for any model, so the conversions are exact.
double Deviation::bias() const {
  return ratio(static_cast<double>(error) / 2, static_cast<double>(elements));
}
double Deviation::rms_error() const {
  return std::sqrt(ratio(static_cast<double>(squared_error) / 4, static_cast<double>(elements)));
}
double Deviation::rms_value() const {
  return std::sqrt(ratio(static_cast<double>(squared_value) / 4, static_cast<double>(elements)));
}
double Deviation::relative_rms() const {
  return std::sqrt(ratio(static_cast<double>(squared_error), static_cast<double>(squared_value)));
}

double Deviation::rms_ratio() const {
  return ratio(rms_error(), rms_value());
}

}  // namespace planesmith
