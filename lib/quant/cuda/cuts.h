// Requantization without rounding: magnitudes are written as codes, and the places where the scale exponent
// and the e2m1 magnitude index go up (FORMAT.md section 4) are found among the codes by comparing integer
// products.
//
// A code is the top of a positive float's bits, kSteps codes to an octave: the float (1 + step / kSteps) *
// 2^(n - 127) has code kSteps * n + step. 8 steps hold every e4m3 magnitude exactly, 32 also its products
// with e2m1 magnitudes.
#pragma once

#include <cstdint>

#include "format/host_device.h"
#include "format/number.h"
#include "quant/cuda/words.h"

namespace planesmith::cuda {

inline constexpr int kE4m3Steps = 8, kProductSteps = 32;

template <int kSteps>
PLANESMITH_HD constexpr int log2_steps() {
  static_assert(kSteps == kE4m3Steps || kSteps == kProductSteps);
  return kSteps == kE4m3Steps ? 3 : 5;
}

template <int kSteps>
PLANESMITH_HD constexpr int code_of_float(Word bits) {
  return static_cast<int>(bits >> (23 - log2_steps<kSteps>()));
}

// e4m3 and e2m1 magnitudes as floats; the multiplication normalizes their subnormals.
PLANESMITH_HD inline float e4m3_magnitude(unsigned bits) {
  return float_of(bits << 20) * 0x1p120f;
}
PLANESMITH_HD inline float e2m1_magnitude(unsigned index) {
  return float_of(index << 22) * 0x1p126f;
}

// The smallest e4m3 magnitude (its byte) whose code is at least `code`, at most 0x80.
inline constexpr int kE4m3Code = 120 * kE4m3Steps;  // code minus byte, of normal numbers
PLANESMITH_HD constexpr Word e4m3_from_code(int code) {
  const int byte = code - kE4m3Code;
  if (byte >= 8) return byte < 0x80 ? static_cast<Word>(byte) : 0x80u;
  const int below = 1 - (byte >> 3), shift = below < 5 ? below : 5;
  return static_cast<Word>(8 + (byte & 7) + (1 << shift) - 1) >> shift;
}

// A finite factor: (-1)^negative * significand * 2^exponent, 2^23 <= significand < 2^24; or zero.
struct Factor {
  Word significand;
  int exponent;
  bool zero, negative;
};
PLANESMITH_HD constexpr bool f32_is_finite(Word bits) {
  return (bits >> 23 & 255) != 255;
}
PLANESMITH_HD constexpr Factor factor_of_f32(Word bits) {
  const int exponent = static_cast<int>(bits >> 23 & 255);
  const bool negative = bits >> 31 != 0;
  Word significand = bits & 0x7FFFFFu;
  if (exponent != 0) return {significand | 1u << 23, exponent - 150, false, negative};
  if (significand == 0) return {1u << 23, -23, true, negative};
  int shift = 0;
  for (; significand < 1u << 23; ++shift) significand <<= 1;
  return {significand, -149 - shift, false, negative};
}
PLANESMITH_HD constexpr Factor factor_of_e8m0(std::uint8_t byte) {
  return {1u << 23, int{byte} - 150, false, false};
}

// The thresholds of the magnitude index (format::magnitude_index) are four levels, shifted.
inline constexpr int kLevels = 4, kThresholds = format::kThresholds;
PLANESMITH_HD constexpr Word level(int i) {  // in eighths
  constexpr std::uint8_t table[kLevels] = {8, 10, 12, 14};
  return table[i];
}
PLANESMITH_HD constexpr int threshold_level(int i) {
  constexpr std::int8_t table[kThresholds] = {0, 2, 1, 3, 1, 3, 1};
  return table[i];
}
PLANESMITH_HD constexpr int threshold_shift(int i) {
  constexpr std::int8_t table[kThresholds] = {-2, -1, 0, 0, 1, 1, 2};
  return table[i];
}

constexpr bool thresholds_are_the_format_s() {
  for (int i = 0; i < kThresholds; ++i)
    if (level(threshold_level(i)) * format::power_of_two(threshold_shift(i) - 3) !=
        format::magnitude_threshold(i))
      return false;
  return true;
}
static_assert(thresholds_are_the_format_s());

// What follows from a factor's significand alone, as codes of octave 0.
template <int kSteps>
struct Cuts {
  int up;              // from here on the scale exponent is one higher
  int above[kLevels];  // from here on the product is above the level
};
template <int kSteps>
PLANESMITH_HD constexpr Cuts<kSteps> cuts_of(Word significand) {
  constexpr Word scale = kSteps / 8;
  constexpr Word six_sqrt2 = scale == 1 ? 142359398 : 569437593;  // floor(6 sqrt(2) 2^24 scale)
  // The smallest code with (kSteps + step) * significand > limit; in the next octave steps are twice as
  // large.
  const auto code_above = [&](Word limit) {
    const int quotient = static_cast<int>(limit / significand);
    return quotient < 2 * kSteps ? quotient + 1 - kSteps : quotient / 2 + 1;
  };
  Cuts<kSteps> cuts{code_above(six_sqrt2), {}};
  for (int i = 0; i < kLevels; ++i) cuts.above[i] = code_above((level(i) << 24) * scale);
  return cuts;
}

// A product at cut `up` of octave n is just above 6 sqrt(2) 2^(x - 1) with x = n + factor.exponent +
// kOctaveOfOne; from there on log2(amax / 6) rounds to x.
inline constexpr int kOctaveOfOne = -105;

// The scale exponent of a block whose largest magnitude is that of `code` times the factor.
template <int kSteps>
PLANESMITH_HD inline int block_exponent(int code, int up, int factor_exponent, Word significand) {
  const int octave = (code >> log2_steps<kSteps>()) + factor_exponent;
  if (octave < 64) {  // the product is below 2^-39: the rule's 1e-30 may count
    const Word steps = kSteps + static_cast<Word>(code) % kSteps;
    return format::scale_exponent(steps * significand *
                                  format::power_of_two(octave - 127 - log2_steps<kSteps>()));
  }
  const int exponent = ((code - up) >> log2_steps<kSteps>()) + kOctaveOfOne + factor_exponent;
  return exponent < 127 ? exponent : 127;
}

// In a block of that exponent the magnitude index is above i from code
// above[threshold_level(i)] + threshold_offset(i) + block_origin on.
template <int kSteps>
PLANESMITH_HD constexpr int threshold_offset(int i) {
  return kSteps * (threshold_shift(i) - 2);
}
template <int kSteps>
PLANESMITH_HD constexpr int block_origin(int exponent, int factor_exponent) {
  return kSteps * (exponent - factor_exponent - kOctaveOfOne);
}

}  // namespace planesmith::cuda
