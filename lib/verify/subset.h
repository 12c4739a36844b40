// Verifies part of the contents at a time.
#pragma once

#include <cstdint>
#include <string>

namespace planesmith {

// Which units of the contents are verified: part `part` of `of` (1 .. of), the same every time; or a random
// `percent`, another each time by `seed`.
struct Subset {
  std::uint64_t part = 0, of = 0;
  std::uint64_t percent = 0, seed = 0;
  bool holds(std::uint64_t number) const;
};
// "2/5" or "10%"; anything else is a usage Error.
Subset parse_subset(const std::string& text);

}  // namespace planesmith
