// The pieces of the scalar reference that the vector kernels fall back to, tile by tile.
#pragma once

#include <cstdint>

#include "format/planes.h"
#include "quant/kernels.h"

namespace planesmith {

// One tile before it is packed: rows of nibbles, two per byte as checkpoints hold them; scale bytes by row
// and block of 32 columns.
struct QuantizedTile {
  std::uint8_t row[format::kTileRows][format::kTileCols / 2];
  std::uint8_t scale[format::kTileRows][format::kTileCols / format::kScaleCols];
};

// The tile of a finite slice whose first element is (row, col); returns its zeros before balancing.
ZeroCount quantize_tile(const Fp8Slice& slice, ZeroSigns zeros, std::uint64_t row, std::uint64_t col,
                        QuantizedTile& tile);

// The scale of a block, counted in blocks.
double block_scale(const Fp8Slice& slice, std::uint64_t block_row, std::uint64_t block_col);

}  // namespace planesmith
