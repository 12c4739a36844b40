// Comparing what is made with what is there.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>

#include "base/file.h"

namespace planesmith {

// Whether the file has these bytes at this offset; a file that ends earlier has not.
inline bool holds(const File& file, std::uint64_t offset, ConstBytes bytes) {
  std::array<std::uint8_t, 1 << 16> there;
  while (!bytes.empty()) {
    const Bytes piece = Bytes(there).first(std::min(there.size(), bytes.size()));
    if (file.read_some(piece, offset) != piece.size()) return false;
    if (!std::equal(piece.begin(), piece.end(), bytes.begin())) return false;
    bytes = bytes.subspan(piece.size());
    offset += piece.size();
  }
  return true;
}

}  // namespace planesmith
