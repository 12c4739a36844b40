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

// Whether `file` has at `offset` the n bytes that `from` has at `from_offset`.
inline bool holds(const File& file, std::uint64_t offset, const File& from, std::uint64_t from_offset,
                  std::uint64_t n) {
  std::array<std::uint8_t, 1 << 16> bytes;
  for (std::uint64_t at = 0; at < n; at += bytes.size()) {
    const Bytes piece = Bytes(bytes).first(std::min<std::uint64_t>(bytes.size(), n - at));
    from.read(piece, from_offset + at);
    if (!holds(file, offset + at, piece)) return false;
  }
  return true;
}

}  // namespace planesmith
