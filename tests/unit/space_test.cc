// How many files can be replaced side by side where space is scarce.
#include "base/space.h"

#include <doctest/doctest.h>

using namespace planesmith;

TEST_CASE("the largest sizes") {
  CHECK(sum_of_largest({3, 9, 1, 5}, 0) == 0);
  CHECK(sum_of_largest({3, 9, 1, 5}, 2) == 14);
  CHECK(sum_of_largest({3, 9, 1, 5}, 9) == 18);
  CHECK(sum_of_largest({}, 1) == 0);
}

TEST_CASE("as many side by side as fit, one at least") {
  for (std::size_t most = 1; most < 20; ++most)
    for (std::uint64_t free = 0; free < 60; ++free) {
      const auto needed = [](std::size_t n) { return std::uint64_t{10} + 2 * n; };
      const std::uint64_t fit = free < 12 ? 1 : (free - 10) / 2;
      CHECK(most_that_fit(most, free, needed) == std::min<std::uint64_t>(most, fit));
    }
}

TEST_CASE("nothing is replaced: space does not depend on how many") {
  CHECK(most_that_fit(7, 0, [](std::size_t) { return std::uint64_t{10}; }) == 7);
}
