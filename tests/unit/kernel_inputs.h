// Inputs for the kernel tests and the fuzz target: slices of every family with odd geometries, rows that do
// not follow one another, pointers off alignment, and the values that are hard: signed zeros, subnormals,
// ties, NaN, infinity. All of it is drawn from one source of bytes, random or a fuzzer's.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <functional>
#include <string>
#include <vector>

#include "format/planes.h"
#include "quant/kernels.h"

namespace planesmith::testing {

using Draw = std::function<std::uint8_t()>;

inline std::uint32_t draw_below(const Draw& draw, std::uint32_t n) {
  return (draw() | draw() << 8u) % n;
}

// splitmix64: enough for test data, and the same everywhere.
inline Draw random_bytes(std::uint64_t seed) {
  return [state = seed, left = 0, word = std::uint64_t{0}]() mutable {
    if (left == 0) {
      std::uint64_t z = state += 0x9E3779B97F4A7C15;
      z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9;
      z = (z ^ z >> 27) * 0x94D049BB133111EB;
      word = z ^ z >> 31;
      left = 8;
    }
    --left;
    const auto byte = static_cast<std::uint8_t>(word);
    word >>= 8;
    return byte;
  };
}

// A two-dimensional array of bytes inside a larger allocation.
struct Field {
  std::vector<std::uint8_t> storage;
  std::uint64_t lead = 0, stride = 0;

  Field() = default;
  Field(std::uint64_t rows, std::uint64_t row_bytes, const Draw& draw)
      : storage(64 + rows * (row_bytes + 72)),
        lead(draw() & 63u),
        stride(row_bytes + (draw() & 1 ? draw() % 72u : 0)) {}
  std::uint8_t* row(std::uint64_t r) { return storage.data() + lead + r * stride; }
};

struct Shape {
  std::uint64_t rows, cols;
};
inline Shape draw_shape(const Draw& draw) {
  // Some so wide that rows are many registers of scales long.
  if (draw() % 8 == 0) return {16, 64 * (10 + draw() % 40u)};
  return {16 * (1 + draw() % 4u), 64 * (1 + draw() % 9u)};
}

struct Mxfp4Case {
  Field weight, scale;
  Mxfp4Slice slice{};
};
struct Fp8Case {
  Field weight, scale;
  Fp8Slice slice{};
};
struct Nvfp4Case {
  Field weight, scale;
  Nvfp4Slice slice{};
};

inline float draw_scale(const Draw& draw) {
  const auto significand = static_cast<std::uint32_t>(draw() | draw() << 8 | (draw() & 127) << 16);
  const std::uint32_t sign = draw() % 4 == 0 ? 0x80000000u : 0;
  const auto with_exponent = [&](std::uint32_t biased, std::uint32_t fraction) {
    return std::bit_cast<float>(sign | biased << 23 | fraction);
  };
  switch (draw() % 16) {
    case 0:
      return with_exponent(0, 0);  // zero of either sign
    case 1:
      return with_exponent(0, significand);  // subnormal
    case 2:
      return with_exponent(draw() % 255u, significand);  // any finite value
    case 3:
      return with_exponent(60 + draw() % 30u, significand);  // where the 1e-30 begins to matter
    case 4:
      return with_exponent(220 + draw() % 35u, significand);  // where the exponent meets its limit
    case 5:                                                   // powers of two: elements fall on thresholds
    case 6:
      return with_exponent(100 + draw() % 40u, 0);
    case 7: {  // next to a tie of the exponent: amax / 6 = sqrt(2) * 2^k for some e4m3 amax
      const double tie = 6 * std::sqrt(2.) / (8 + draw() % 8) * std::exp2(draw() % 40 - 20.);
      const auto bits = std::bit_cast<std::uint32_t>(static_cast<float>(tie));
      return std::bit_cast<float>((bits + draw() % 3u - 1) | sign);
    }
    default:
      return with_exponent(105 + draw() % 16u, significand);  // what checkpoints hold
  }
}

// Fills a row with bytes of one character; `magnitude` masks everything but the sign.
inline void fill_row(std::uint8_t* row, std::uint64_t n, const Draw& draw) {
  switch (draw() % 8) {
    case 0:
      std::memset(row, draw() & 1 ? 0x00 : 0x80, n);
      return;
    case 1:  // zeros of both signs
      for (std::uint64_t i = 0; i < n; ++i) row[i] = draw() & 0x80;
      return;
    case 2:  // small magnitudes, e4m3 subnormals
      for (std::uint64_t i = 0; i < n; ++i) row[i] = draw() & 0x87;
      return;
    case 3:  // mostly zero
      for (std::uint64_t i = 0; i < n; ++i) row[i] = draw() % 16 == 0 ? draw() : draw() & 0x80;
      return;
    case 4:  // a narrow range
      for (std::uint64_t i = 0; i < n; ++i) row[i] = (draw() & 0x9F) + 0x20;
      return;
    default:
      for (std::uint64_t i = 0; i < n; ++i) row[i] = draw();
  }
}
inline void without_e4m3_nan(std::uint8_t* row, std::uint64_t n) {
  for (std::uint64_t i = 0; i < n; ++i)
    if ((row[i] & 0x7F) == 0x7F) row[i] ^= 1;
}

// Each draw_* makes a finite slice; spoil() then puts a NaN or an infinity somewhere.
inline Mxfp4Case draw_mxfp4(const Draw& draw, const Shape& shape) {
  Mxfp4Case c{{shape.rows, shape.cols / 2, draw}, {shape.rows, shape.cols / 32, draw}};
  for (std::uint64_t r = 0; r < shape.rows; ++r) {
    fill_row(c.weight.row(r), shape.cols / 2, draw);
    for (std::uint64_t i = 0; i < shape.cols / 32; ++i) c.scale.row(r)[i] = draw() % 255u;
  }
  c.slice = {shape.rows, shape.cols, c.weight.row(0), c.weight.stride, c.scale.row(0), c.scale.stride};
  return c;
}

inline Fp8Case draw_fp8(const Draw& draw, const Shape& shape) {
  constexpr std::uint32_t blocks[][2] = {{128, 128}, {128, 128}, {32, 64}, {16, 64},  {16, 32},
                                         {64, 96},   {1, 128},   {3, 5},   {48, 192}, {16, 16}};
  const auto [block_rows, block_cols] = blocks[draw() % std::size(blocks)];
  constexpr ScaleType kTypes[] = {ScaleType::e8m0, ScaleType::bf16, ScaleType::f32, ScaleType::f32};
  const ScaleType type = kTypes[draw() % 4];
  const std::uint64_t size = format::scale_size(type);
  const std::uint64_t down = (shape.rows + block_rows - 1) / block_rows;
  const std::uint64_t across = (shape.cols + block_cols - 1) / block_cols;
  Fp8Case c{{shape.rows, shape.cols, draw}, {down, across * size, draw}};
  for (std::uint64_t r = 0; r < shape.rows; ++r) {
    fill_row(c.weight.row(r), shape.cols, draw);
    without_e4m3_nan(c.weight.row(r), shape.cols);
  }
  for (std::uint64_t r = 0; r < down; ++r)
    for (std::uint64_t i = 0; i < across; ++i) {
      const float scale = draw_scale(draw);
      if (type == ScaleType::e8m0)
        c.scale.row(r)[i] = draw() & 1 ? draw() % 255u : 100 + draw() % 40u;
      else  // of BF16 the upper half
        std::memcpy(c.scale.row(r) + size * i, reinterpret_cast<const std::uint8_t*>(&scale) + 4 - size,
                    size);
    }
  c.slice = {shape.rows,      shape.cols,     c.weight.row(0),
             c.weight.stride, c.scale.row(0), c.scale.stride,
             block_rows,      block_cols,     type};
  return c;
}

inline Nvfp4Case draw_nvfp4(const Draw& draw, const Shape& shape) {
  Nvfp4Case c{{shape.rows, shape.cols / 2, draw}, {shape.rows, shape.cols / 16, draw}};
  for (std::uint64_t r = 0; r < shape.rows; ++r) {
    fill_row(c.weight.row(r), shape.cols / 2, draw);
    fill_row(c.scale.row(r), shape.cols / 16, draw);
    without_e4m3_nan(c.scale.row(r), shape.cols / 16);
  }
  c.slice = {shape.rows,     shape.cols,     c.weight.row(0), c.weight.stride,
             c.scale.row(0), c.scale.stride, draw_scale(draw)};
  return c;
}

inline Mxfp4Case draw_mxfp4(const Draw& draw) {
  return draw_mxfp4(draw, draw_shape(draw));
}
inline Fp8Case draw_fp8(const Draw& draw) {
  return draw_fp8(draw, draw_shape(draw));
}
inline Nvfp4Case draw_nvfp4(const Draw& draw) {
  return draw_nvfp4(draw, draw_shape(draw));
}

inline void spoil(Mxfp4Case& c, const Draw& draw) {
  c.scale.row(draw_below(draw, c.slice.rows))[draw_below(draw, c.slice.cols / 32)] = 255;
}
inline void spoil(Fp8Case& c, const Draw& draw) {
  const Fp8Slice& s = c.slice;
  if (draw() & 1) {
    c.weight.row(draw_below(draw, s.rows))[draw_below(draw, s.cols)] = draw() & 1 ? 0x7F : 0xFF;
    return;
  }
  const std::uint64_t i = draw_below(draw, (s.cols + s.block_cols - 1) / s.block_cols);
  std::uint8_t* row = c.scale.row(draw_below(draw, (s.rows + s.block_rows - 1) / s.block_rows));
  constexpr std::uint32_t bad[] = {0x7F800000, 0xFF800000, 0x7FC00000, 0x7F800001};
  if (s.scale_type == ScaleType::e8m0) {
    row[i] = 255;
  } else {  // of BF16 the upper half
    const std::uint32_t bits = bad[s.scale_type == ScaleType::bf16 ? draw() % 3 : draw() & 3];
    const std::uint64_t size = format::scale_size(s.scale_type);
    std::memcpy(row + size * i, reinterpret_cast<const std::uint8_t*>(&bits) + 4 - size, size);
  }
}
inline void spoil(Nvfp4Case& c, const Draw& draw) {
  c.scale.row(draw_below(draw, c.slice.rows))[draw_below(draw, c.slice.cols / 16)] = draw() & 1 ? 0x7F : 0xFF;
}

// Planes of a slice inside an allocation filled with a guard byte, so that a write outside shows.
struct Planes {
  static constexpr std::uint8_t kGuard = 0xA5;
  std::vector<std::uint8_t> storage[4];
  std::uint64_t lead = 0;
  ZeroCount zeros;

  // `lead` bytes before each plane; sections not in `wanted` (bits 0..3: codes, nibbles, quintals, scales)
  // are null.
  Planes(std::uint64_t rows, std::uint64_t cols, std::uint64_t lead_bytes) : lead(lead_bytes) {
    const std::uint64_t sizes[4] = {format::code_bytes(rows, cols), format::nibble_bytes(rows, cols),
                                    format::quintal_bytes(rows, cols), format::scale_bytes(rows, cols)};
    for (int i = 0; i < 4; ++i) storage[i].assign(64 + lead + sizes[i] + 64, kGuard);
  }
  PlaneTarget target(unsigned wanted, bool stream) {
    const auto at = [&](unsigned i) {
      // Aligned to 64 where lead is 0, so that both ways of storing are tried.
      const auto address = reinterpret_cast<std::uintptr_t>(storage[i].data());
      return wanted >> i & 1 ? storage[i].data() + (64 - address % 64) % 64 + lead : nullptr;
    };
    return {at(0), at(1), at(2), at(3), stream};
  }
  // All bytes of all planes, guards included, independent of the allocations' addresses.
  std::vector<std::uint8_t> bytes() const {
    std::vector<std::uint8_t> all;
    for (const auto& plane : storage) {
      const auto address = reinterpret_cast<std::uintptr_t>(plane.data());
      const std::uint64_t shift = (64 - address % 64) % 64;
      all.insert(all.end(), plane.begin() + static_cast<std::ptrdiff_t>(shift), plane.end());
      all.insert(all.end(), plane.begin(), plane.begin() + static_cast<std::ptrdiff_t>(shift));
    }
    return all;
  }
};

// The kernel for a family's slices; MXFP4 has no zeros to sign.
inline bool convert(const Kernels& kernels, const Mxfp4Slice& slice, ZeroSigns, const PlaneTarget& to,
                    ZeroCount* = nullptr) {
  return kernels.mxfp4(slice, to);
}
inline bool convert(const Kernels& kernels, const Fp8Slice& slice, ZeroSigns signs, const PlaneTarget& to,
                    ZeroCount* zeros = nullptr) {
  return kernels.fp8(slice, signs, to, zeros);
}
inline bool convert(const Kernels& kernels, const Nvfp4Slice& slice, ZeroSigns signs, const PlaneTarget& to,
                    ZeroCount* zeros = nullptr) {
  return kernels.nvfp4(slice, signs, to, zeros);
}

// --- floats, for quantizing ---

inline constexpr FloatType kTypes[] = {FloatType::bf16, FloatType::f16, FloatType::f32};

// Bytes of finite values of the type; exponents near each other, so that groups are not all zeros but one.
inline std::vector<std::uint8_t> draw_values(const Draw& draw, FloatType type, std::uint64_t count,
                                             bool wild) {
  std::vector<std::uint8_t> out(count * bytes_of(type));
  for (std::uint64_t i = 0; i < count; ++i) {
    std::uint32_t bits = draw() | draw() << 8u | draw() << 16u | static_cast<std::uint32_t>(draw()) << 24;
    const unsigned exponent_bits = type == FloatType::f16 ? 5 : 8;
    const unsigned total = type == FloatType::f32 ? 32 : 16, mantissa = total - 1 - exponent_bits;
    if (total == 16) bits &= 0xFFFF;
    const std::uint32_t top = (1u << exponent_bits) - 1, mask = top << mantissa;
    std::uint32_t exponent = bits >> mantissa & top;
    if (!wild) exponent = top / 2 - 6 + exponent % 8;
    if (exponent == top) exponent = top - 1;
    bits = (bits & ~mask) | exponent << mantissa;
    const unsigned kind = draw();
    if (kind < 12) bits &= 1u << (total - 1);                      // a zero
    if (kind >= 12 && kind < 24) bits &= ~((1u << mantissa) - 1);  // a power of two: ties
    std::memcpy(&out[i * bytes_of(type)], &bits, bytes_of(type));
  }
  return out;
}

}  // namespace planesmith::testing
