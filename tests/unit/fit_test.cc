// Codebook fitting against exhaustive search, and against the reference's figures.
#include "codebook/fit.h"

#include <doctest/doctest.h>

#include <bit>
#include <cmath>
#include <cstdlib>
#include <optional>
#include <random>

#include "base/error.h"
#include "base/json.h"
#include "base/os.h"

namespace {

using namespace planesmith;

std::int64_t squared(std::int64_t x) {
  return x * x;
}

// What the counted elements cost under a set: nearest level each.
std::int64_t cost(const Counts& counts, unsigned set) {
  std::int64_t sum = 0;
  for (unsigned n = 0; n < 16; ++n) {
    std::int64_t least = 1 << 20;
    for (int i = 0; i < kGridLevels; ++i)
      if (set >> i & 1) least = std::min(least, squared(grid_value(i) - format::twice_value(n)));
    sum += least * static_cast<std::int64_t>(counts[n]);
  }
  return sum;
}

// Whether set a comes before set b in lexicographic order of the ascending values (both of one size): the
// lower level at the first difference, which is the lowest bit in which they differ.
bool before(unsigned a, unsigned b) {
  return (a & ((a ^ b) & -(a ^ b))) != 0;
}

unsigned search(const Counts& counts, int levels) {
  std::optional<unsigned> best;
  for (unsigned set = 0; set < 1u << kGridLevels; ++set) {
    if (std::popcount(set) != levels) continue;
    if (!best || cost(counts, set) < cost(counts, *best) ||
        (cost(counts, set) == cost(counts, *best) && before(set, *best)))
      best = set;
  }
  return *best;
}

LevelSet set_of(std::initializer_list<double> levels) {
  LevelSet set = 0;
  for (const double level : levels)
    for (int i = 0; i < kGridLevels; ++i)
      if (grid_value(i) == 2 * level) set |= static_cast<LevelSet>(1 << i);
  return set;
}

// Histograms of every kind: dense, sparse, with many ties, symmetric, of one value, empty.
std::vector<Counts> histograms() {
  std::mt19937 random(6);
  std::vector<Counts> all = {Counts{}, Counts{32}, Counts{0, 0, 0, 0, 0, 0, 0, 0, 32}};
  for (int kind = 0; kind < 12; ++kind) {
    Counts counts{};
    for (unsigned n = 0; n < 16; ++n) {
      if (kind % 4 == 0) counts[n] = random() % 100000;
      if (kind % 4 == 1) counts[n] = random() % 3 == 0 ? 1 + random() % 4 : 0;
      if (kind % 4 == 2) counts[n] = 1;
    }
    if (kind % 4 == 3)
      for (unsigned n = 0; n < 8; ++n) counts[n] = counts[n + 8] = random() % 5;
    all.push_back(counts);
  }
  return all;
}

}  // namespace

TEST_CASE("the grid is the 15 values of e2m1, doubled") {
  CHECK(grid_value(0) == -12);
  CHECK(grid_value(7) == 0);
  for (int i = 1; i < kGridLevels; ++i) CHECK(grid_value(i - 1) < grid_value(i));
  for (unsigned n = 0; n < 16; ++n) CHECK(grid_value(grid_index(n)) == format::twice_value(n));
  CHECK(kCanonicalSet == set_of({-4, -1, 1, 4}));
  CHECK(levels_text(kCanonicalSet) == "[-4.0, -1.0, 1.0, 4.0]");
  CHECK(levels_text(set_of({-1.5, 0, .5})) == "[-1.5, 0.0, 0.5]");
}

TEST_CASE("fit_subset finds what a search through all subsets finds first") {
  for (const Counts& counts : histograms())
    for (int levels = 2; levels <= kGridLevels; ++levels) {
      CAPTURE(levels);
      CHECK(levels_text(fit_subset(counts, levels)) ==
            levels_text(static_cast<LevelSet>(search(counts, levels))));
    }
}

TEST_CASE("fit_symmetric finds the first of the best sets {-b, -a, a, b}") {
  for (const Counts& counts : histograms()) {
    std::optional<unsigned> best;
    for (unsigned a = 1; a < 8; ++a)
      for (unsigned b = a + 1; b < 8; ++b) {
        const unsigned set = 1u << (7 - b) | 1u << (7 - a) | 1u << (7 + a) | 1u << (7 + b);
        if (!best || cost(counts, set) < cost(counts, *best)) best = set;
      }
    CHECK(levels_text(fit_symmetric(counts)) == levels_text(static_cast<LevelSet>(*best)));
  }
}

TEST_CASE("fit_tensor is the optimum among the values that occur") {
  for (const Counts& counts : histograms()) {
    unsigned occurring = 0;
    for (unsigned n = 0; n < 16; ++n)
      if (counts[n] != 0) occurring |= 1u << grid_index(n);
    for (int levels = 2; levels <= kMaxLevels; ++levels) {
      const LevelSet found = fit_tensor(counts, levels);
      CHECK((found & ~occurring) == 0);
      CHECK(std::popcount(found) == std::min(levels, std::popcount(occurring)));
      std::int64_t least = std::popcount(occurring) <= levels ? 0 : INT64_MAX;
      for (unsigned set = 0; set < 1u << kGridLevels; ++set)
        if ((set & ~occurring) == 0 && std::popcount(set) == levels)
          least = std::min(least, cost(counts, set));
      if (occurring != 0) CHECK(cost(counts, found) == least);
    }
  }
}

TEST_CASE("fit_tensor takes the first of equal optima") {
  Counts counts{};  // -1, 0 and 1, once each, under two levels: {-1, 0} and {0, 1} and {-1, 1} cost the same
  counts[2] = counts[10] = counts[0] = 1;
  CHECK(levels_text(fit_tensor(counts, 2)) == "[-1.0, 0.0]");
  counts[0] = 0;
  counts[8] = 1;  // the two zeros are one value
  CHECK(levels_text(fit_tensor(counts, 2)) == "[-1.0, 0.0]");
}

TEST_CASE("fit_subset takes the first of equal optima and levels that do not occur") {
  Counts zeros{};
  zeros[0] = 20, zeros[8] = 12;
  CHECK(levels_text(fit_subset(zeros, 2)) == "[-6.0, 0.0]");
  CHECK(levels_text(fit_subset(zeros, 4)) == "[-6.0, -4.0, -3.0, 0.0]");
  CHECK(levels_text(fit_symmetric(zeros)) == "[-1.0, -0.5, 0.5, 1.0]");
  CHECK(levels_text(fit_tensor(zeros, 4)) == "[0.0]");
}

TEST_CASE("ties and zeros of the maps") {
  const auto value = [](std::uint8_t nibble) { return format::twice_value(nibble) / 2.0; };
  const LevelSet canonical = kCanonicalSet;
  const NibbleMap odd = map_to(Granularity::tensor_sym, canonical),
                  first = map_to(Granularity::tensor, canonical);
  CHECK(value(odd[0]) == 1);
  CHECK(value(odd[8]) == -1);
  CHECK(value(first[0]) == -1);  // of two equally near levels the first: every zero goes down
  CHECK(value(first[8]) == -1);
  for (unsigned n = 0; n < 16; ++n) {
    CAPTURE(n);
    CHECK(value(odd[n]) == format::level_of(format::code_of(n)));  // what is served
    CHECK(value(odd[n]) == -value(odd[n ^ 8]));
    if ((n & 7) != 0) CHECK(first[n] == odd[n]);
  }
  // 2 lies between 1 and 3: the smaller magnitude, or the first in ascending order.
  const LevelSet between = set_of({-3, -1, 1, 3});
  CHECK(value(map_to(Granularity::row, between)[4]) == 1);
  CHECK(value(map_to(Granularity::row, between)[12]) == -1);
  CHECK(value(map_to(Granularity::tensor, between)[4]) == 1);
  CHECK(value(map_to(Granularity::tensor, between)[12]) == -3);
  // 0.5 between -1 and 2: its own sign first, although the magnitude is greater.
  CHECK(value(map_to(Granularity::row, set_of({-1, 2}))[1]) == 2);
  // 0.5 between 0 and 1: zero counts as its own sign, and is smaller. What becomes zero keeps its sign bit.
  for (const Granularity g : {Granularity::row, Granularity::tensor}) {
    const NibbleMap map = map_to(g, set_of({-1, 0, 1}));
    CHECK(map[0] == 0);
    CHECK(map[8] == 8);
    CHECK(map[1] == 0);
    CHECK(map[9] == (g == Granularity::row ? 8 : 10));  // ascending: -1 comes before 0
  }
}

TEST_CASE("15 and 16 levels are the identity") {
  NibbleMap same;
  for (unsigned n = 0; n < 16; ++n) same[n] = static_cast<std::uint8_t>(n);
  for (const Granularity g : kGranularities)
    for (const int levels : {15, 16})
      for (const Counts& counts : histograms()) {
        const NibbleMap map = map_to(g, fit(g, counts, levels));
        for (unsigned n = 0; n < 16; ++n)
          if (counts[n] != 0) CHECK(map[n] == same[n]);
      }
}

TEST_CASE("deviation counts what a map changes") {
  Counts counts{};
  counts[0] = 3, counts[8] = 1, counts[7] = 2, counts[13] = 4;  // 0 0 0 -0 6 6 -3 -3 -3 -3
  const Deviation d = deviation(counts, map_to(Granularity::tensor_sym, kCanonicalSet));
  CHECK(d.elements == 10);
  CHECK(d.bias() == doctest::Approx((3 - 1 - 2 * 2 - 4 * 1) / 10.0));
  CHECK(d.rms_error() == doctest::Approx(std::sqrt((4 * 1 + 2 * 4 + 4 * 1) / 10.0)));
  CHECK(d.relative_rms() == doctest::Approx(std::sqrt(16.0 / (2 * 36 + 4 * 9))));
  CHECK(Deviation{}.relative_rms() == 0);
}

TEST_CASE("levels and granularities") {
  for (const Granularity g : kGranularities) CHECK(parse_granularity(name(g)) == g);
  CHECK_THROWS_AS(parse_granularity("tensors"), Error);
  for (const int levels : {-1, 0, 1, 17}) CHECK_THROWS_AS(check_levels(Granularity::row, levels), Error);
  for (int levels = 2; levels <= 16; ++levels) {
    CHECK_NOTHROW(check_levels(Granularity::row, levels));
    if (levels == 4 || levels >= 15)
      CHECK_NOTHROW(check_levels(Granularity::tensor_sym, levels));
    else
      CHECK_THROWS_AS(check_levels(Granularity::tensor_sym, levels), Error);
  }
}

TEST_CASE("the reference's codebooks, bias and relative RMS") {
  int tensors = 0;
  const Json bias = read_json(posix(), SOURCE_DIR "/tests/golden/ds4-mini/bias.json");
  for (const auto& [tensor, want] : bias.items()) {
    const auto& this_tensor = tensor;  // clang 14 cannot capture structured bindings
    CAPTURE(this_tensor);
    const Counts counts = want.at("hist").get<Counts>();
    const LevelSet asymmetric = fit_tensor(counts, 4), symmetric = fit_symmetric(counts);
    CHECK(levels_text(asymmetric) == levels_text(set_of({want["levels_asym"][0], want["levels_asym"][1],
                                                         want["levels_asym"][2], want["levels_asym"][3]})));
    CHECK(levels_text(symmetric) == levels_text(set_of({want["levels_sym"][0], want["levels_sym"][1],
                                                        want["levels_sym"][2], want["levels_sym"][3]})));
    CHECK(is_symmetric(asymmetric) == want["asym_is_sym"].get<bool>());
    CHECK(is_symmetric(symmetric));
    const Deviation a = deviation(counts, map_to(Granularity::tensor, asymmetric));
    const Deviation s = deviation(counts, map_to(Granularity::tensor_sym, symmetric));
    CHECK(a.bias() == want["bias_asym"].get<double>());
    CHECK(s.bias() == want["bias_sym"].get<double>());
    CHECK(a.rms_error() / a.rms_value() == want["rel_asym"].get<double>());
    CHECK(s.rms_error() / s.rms_value() == want["rel_sym"].get<double>());
    ++tensors;
  }
  CHECK(tensors == 18);
}
