// Fragment-major planes (FORMAT.md section 5): where every element of a matrix [rows, cols] goes.
// Tiles of 16 rows x 64 columns, row panels of 16 first; a tile is 32 lanes, a lane 8 quads of 4 columns.
#pragma once

#include <cstdint>

#include "format/host_device.h"

namespace planesmith::format {

inline constexpr std::uint64_t kTileRows = 16, kTileCols = 64, kLanes = 32, kQuads = 8, kQuadCols = 4;
inline constexpr std::uint64_t kScaleCols = 32;  // columns that share one scale byte

// Bytes of one tile.
inline constexpr std::uint64_t kCodeTile = 256, kNibbleTile = 512, kQuintalTile = 320;

// Bytes of a plane of rows x cols; rows divisible by 16, cols by 64.
PLANESMITH_HD constexpr std::uint64_t code_bytes(std::uint64_t rows, std::uint64_t cols) {
  return rows * cols / 4;
}
PLANESMITH_HD constexpr std::uint64_t nibble_bytes(std::uint64_t rows, std::uint64_t cols) {
  return rows * cols / 2;
}
PLANESMITH_HD constexpr std::uint64_t quintal_bytes(std::uint64_t rows, std::uint64_t cols) {
  return rows * cols / 16 * 5;
}
PLANESMITH_HD constexpr std::uint64_t scale_bytes(std::uint64_t rows, std::uint64_t cols) {
  return rows * cols / kScaleCols;
}

// The tile that holds (row, col), counted from the start of the plane.
PLANESMITH_HD constexpr std::uint64_t tile_of(std::uint64_t row, std::uint64_t col, std::uint64_t cols) {
  return row / kTileRows * (cols / kTileCols) + col / kTileCols;
}

// Inside a tile: row and first column of quad j of lane `lane` (= 4g + t).
struct QuadOrigin {
  unsigned row, col;
};
PLANESMITH_HD constexpr QuadOrigin quad_origin(unsigned lane, unsigned j) {
  const unsigned g = lane / 4, t = lane % 4, tile = j / 4, k32 = j / 2 % 2, half = j % 2;
  return {8 * tile + g, 32 * k32 + 16 * half + 4 * t};
}

// The inverse: lane and quad of (row, col) of a tile.
struct LaneQuad {
  unsigned lane, quad;
};
PLANESMITH_HD constexpr LaneQuad lane_quad(unsigned row, unsigned col) {
  return {row % 8 * 4 + col % 16 / 4, row / 8 * 4 + col / 32 * 2 + col / 16 % 2};
}

// Byte offset, inside a plane of `cols` columns,
// of the quad (1 byte) that holds (row, col) in the 2-bit plane ...
PLANESMITH_HD constexpr std::uint64_t code_offset(std::uint64_t row, std::uint64_t col, std::uint64_t cols) {
  const LaneQuad at =
      lane_quad(static_cast<unsigned>(row % kTileRows), static_cast<unsigned>(col % kTileCols));
  return tile_of(row, col, cols) * kCodeTile + at.lane * kQuads + at.quad;
}
// ... of the quad (2 bytes, little-endian) in the nibble plane ...
PLANESMITH_HD constexpr std::uint64_t nibble_offset(std::uint64_t row, std::uint64_t col,
                                                    std::uint64_t cols) {
  return 2 * code_offset(row, col, cols);
}
// ... and of the scale byte in the scale plane.
PLANESMITH_HD constexpr std::uint64_t scale_offset(std::uint64_t row, std::uint64_t col, std::uint64_t cols) {
  return (row / kTileRows * (cols / kScaleCols) + col / kScaleCols) * kTileRows + row % kTileRows;
}

// Quintal tile: the first 8 bytes of each of the 32 lane records (80 bits, word j at bits 10j..10j+9), then
// the last 2 bytes of each. Offset inside the tile of byte b (0..9) of a lane's record.
PLANESMITH_HD constexpr unsigned quintal_record_offset(unsigned lane, unsigned b) {
  return b < 8 ? lane * 8 + b : static_cast<unsigned>(kLanes) * 8 + lane * 2 + (b - 8);
}

}  // namespace planesmith::format
