// A rank's part of an expert's tensor as the checkpoint stores it (FORMAT.md sections 2 and 3), the input of
// the kernels: one struct for each family. checkpoint/family.h makes them from tensors.
#pragma once

#include <cstdint>
#include <variant>

#include "format/number.h"
#include "format/planes.h"

namespace planesmith {

using format::ScaleType;

// Columns that share a scale; of an FP8 block model also as many rows, where its config names no other block.
inline constexpr std::uint64_t kMxfp4Group = 32, kNvfp4Group = 16, kFp8Block = 128;
static_assert(kMxfp4Group == format::kScaleCols);  // MXFP4 scales are copied

// rows is divisible by 16, cols by 64. Pointers address the slice's first element; strides are bytes from one
// row to the next (scale_stride: from one row of scales or of blocks to the next).
struct Mxfp4Slice {
  std::uint64_t rows, cols;
  const std::uint8_t* weight;  // e2m1, two per byte
  std::uint64_t weight_stride;
  const std::uint8_t* scale;  // e8m0, one per 32 columns
  std::uint64_t scale_stride;

  std::uint64_t weight_row_bytes() const { return cols / 2; }
  std::uint64_t scale_rows() const { return rows; }
  std::uint64_t scale_row_bytes() const { return cols / kMxfp4Group; }
};

struct Fp8Slice {
  std::uint64_t rows, cols;
  const std::uint8_t* weight;  // e4m3
  std::uint64_t weight_stride;
  const std::uint8_t* scale;  // one per block, little-endian, any alignment; the slice starts on a block
  std::uint64_t scale_stride;
  std::uint32_t block_rows, block_cols;
  ScaleType scale_type;  // e8m0, bf16 or f32

  std::uint64_t weight_row_bytes() const { return cols; }
  std::uint64_t scale_rows() const { return (rows + block_rows - 1) / block_rows; }
  std::uint64_t scale_row_bytes() const {
    return (cols + block_cols - 1) / block_cols * format::scale_size(scale_type);
  }
};

struct Nvfp4Slice {
  std::uint64_t rows, cols;
  const std::uint8_t* weight;  // e2m1, two per byte
  std::uint64_t weight_stride;
  const std::uint8_t* scale;  // e4m3, one per 16 columns
  std::uint64_t scale_stride;
  float scale_2;

  std::uint64_t weight_row_bytes() const { return cols / 2; }
  std::uint64_t scale_rows() const { return rows; }
  std::uint64_t scale_row_bytes() const { return cols / kNvfp4Group; }
};

using Slice = std::variant<Mxfp4Slice, Fp8Slice, Nvfp4Slice>;

}  // namespace planesmith
