// Parts of the scalar reference that the vector kernels fall back to for single tiles.
#pragma once

#include <cstdint>

#include "format/planes.h"
#include "quant/kernels.h"

namespace planesmith {

// A tile before it is packed into planes: rows of nibbles, two per byte as in checkpoints, and scale bytes by
// row and block of 32 columns.
struct QuantizedTile {
  std::uint8_t row[format::kTileRows][format::kTileCols / 2];
  std::uint8_t scale[format::kTileRows][format::kTileCols / format::kScaleCols];
};

// Fills the tile that begins at element (row, col) of the slice, whose values must be finite. Returns its
// zeros, counted before balancing.
ZeroCount quantize_tile(const Fp8Slice& slice, ZeroSigns zeros, std::uint64_t row, std::uint64_t col,
                        QuantizedTile& tile);

// The scale of a block; row and column count blocks.
double block_scale(const Fp8Slice& slice, std::uint64_t block_row, std::uint64_t block_col);

}  // namespace planesmith
