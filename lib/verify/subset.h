// Verifying a part of the contents at a time.
#pragma once

#include <cstdint>
#include <string>

namespace planesmith {

// Part of the contents: part i of n, 1 .. n, the same every time; or a share, other parts each time.
struct Subset {
  std::uint64_t part = 0, of = 0;
  std::uint64_t percent = 0, seed = 0;
  bool holds(std::uint64_t number) const;
};
// "2/5" or "10%"; anything else is a usage Error.
Subset parse_subset(const std::string& text);

}  // namespace planesmith
