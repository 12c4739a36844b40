// Compares what would be written with what a file holds.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>

#include "base/file.h"

namespace planesmith {

// Whether the file has these bytes at this offset; false if it ends earlier.
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
