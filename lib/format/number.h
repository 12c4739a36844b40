// Number formats and the codebook (FORMAT.md section 1). Tables live inside functions: a namespace-scope
// constexpr table does not exist in CUDA device code.
#pragma once

#include <cstdint>
#include <cstring>

#include "format/host_device.h"

namespace planesmith::format {

// --- e2m1 (FP4): a nibble; bit 3 = sign, bits 0-2 = magnitude index 0..7 ---

// Twice the magnitude of index m: 0 1 2 3 4 6 8 12, so that sums and squares stay integers.
PLANESMITH_HD constexpr int twice_magnitude(unsigned m) {
  constexpr std::uint8_t table[8] = {0, 1, 2, 3, 4, 6, 8, 12};
  return table[m & 7];
}
PLANESMITH_HD constexpr int twice_value(unsigned nibble) {
  return nibble & 8 ? -twice_magnitude(nibble) : twice_magnitude(nibble);
}
// Nibble of column `col` in a row of packed bytes: low nibble = even column.
PLANESMITH_HD constexpr unsigned nibble_at(const std::uint8_t* row, std::uint64_t col) {
  return (row[col / 2] >> (col % 2 * 4)) & 15u;
}

// --- codebook {-4, -1, +1, +4} = codes {0, 1, 2, 3} ---

// Nearest level; ties to the smaller magnitude, zero to +-1 by its sign bit.
PLANESMITH_HD constexpr unsigned code_of(unsigned nibble) {
  const bool outer = (nibble & 7) >= 5;
  return nibble & 8 ? (outer ? 0u : 1u) : (outer ? 3u : 2u);
}
PLANESMITH_HD constexpr int level_of(unsigned code) {
  constexpr std::int8_t table[4] = {-4, -1, 1, 4};
  return table[code & 3];
}
// Quintal digit 0..4: which nibble it was, given its code.
PLANESMITH_HD constexpr unsigned quintal_digit(unsigned nibble) {
  const unsigned m = nibble & 7;
  return m >= 5 ? m - 5 : m;
}

// --- requantization to e2m1 (FORMAT.md section 4) ---

// Magnitude index of |u|: how many thresholds are strictly below it. The thresholds are exact in binary. Each
// set of kernels has them in its own form, tied to these by a static_assert.
inline constexpr int kThresholds = 7;
PLANESMITH_HD constexpr double magnitude_threshold(int i) {
  constexpr double table[kThresholds] = {.25, .75, 1.25, 1.75, 2.5, 3.5, 5};
  return table[i];
}
PLANESMITH_HD constexpr unsigned magnitude_index(double magnitude) {
  unsigned m = 0;
  for (int i = 0; i < kThresholds; ++i) m += magnitude_threshold(i) < magnitude ? 1u : 0u;
  return m;
}

// Exponent of the scale of a block whose largest magnitude is amax: round_half_even(log2(amax / 6 + 1e-30)),
// -127 for amax == 0, at most 127. Without libm: log2 rounds up where its argument is above sqrt(2) times a
// power of two, which is a comparison of bit patterns. No amax that the formats can produce comes near a tie,
// so any accurate log2 gives the same result.
PLANESMITH_HD inline int scale_exponent(double amax) {
  if (amax == 0) return -127;
  const double scaled = amax / 6 + 1e-30;
  std::int64_t bits;
  std::memcpy(&bits, &scaled, sizeof bits);
  constexpr std::int64_t sqrt2 = 0x3FF6A09E667F3BCD;
  const int x = static_cast<int>((bits - sqrt2) >> 52) + 1;
  return x < 127 ? x : 127;
}

// --- 8-bit formats ---

PLANESMITH_HD constexpr bool e8m0_is_nan(std::uint8_t b) {
  return b == 255;
}
PLANESMITH_HD constexpr bool e4m3_is_nan(std::uint8_t b) {
  return (b & 0x7F) == 0x7F;
}

// 2^exponent, exact, for exponents of normal doubles.
PLANESMITH_HD constexpr double power_of_two(int exponent) {
  double value = 1, base = exponent < 0 ? .5 : 2;
  for (unsigned n = static_cast<unsigned>(exponent < 0 ? -exponent : exponent); n != 0; n >>= 1) {
    if (n & 1) value *= base;
    base *= base;
  }
  return value;
}
PLANESMITH_HD constexpr double e8m0_value(std::uint8_t b) {
  return power_of_two(int{b} - 127);
}
// NaN bytes are not values; callers refuse them first.
PLANESMITH_HD constexpr double e4m3_value(std::uint8_t b) {
  const int exponent = b >> 3 & 15, mantissa = b & 7;
  const double magnitude =
      exponent == 0 ? mantissa * power_of_two(-9) : (8 + mantissa) * power_of_two(exponent - 10);
  return b & 0x80 ? -magnitude : magnitude;
}

// --- scales: one for a block of weights ---

enum class ScaleType : std::uint8_t { e8m0, e4m3, bf16, f32 };
PLANESMITH_HD constexpr std::uint64_t scale_size(ScaleType type) {  // bytes
  return type == ScaleType::f32 ? 4 : type == ScaleType::bf16 ? 2 : 1;
}
// The bits of a scale, little-endian at any address; BF16 widened to F32, which is exact.
PLANESMITH_HD constexpr std::uint32_t scale_bits(ScaleType type, const std::uint8_t* at) {
  std::uint32_t bits = at[0];
  for (unsigned i = 1; i < scale_size(type); ++i) bits |= std::uint32_t{at[i]} << 8 * i;
  return type == ScaleType::bf16 ? bits << 16 : bits;
}
PLANESMITH_HD constexpr bool scale_is_finite(ScaleType type, std::uint32_t bits) {
  if (type == ScaleType::e8m0) return !e8m0_is_nan(static_cast<std::uint8_t>(bits));
  if (type == ScaleType::e4m3) return !e4m3_is_nan(static_cast<std::uint8_t>(bits));
  return (bits >> 23 & 255) != 255;
}
PLANESMITH_HD inline double scale_value(ScaleType type, std::uint32_t bits) {
  if (type == ScaleType::e8m0) return e8m0_value(static_cast<std::uint8_t>(bits));
  if (type == ScaleType::e4m3) return e4m3_value(static_cast<std::uint8_t>(bits));
  float value;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}

}  // namespace planesmith::format
