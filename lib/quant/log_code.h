// Requantization without floating point per element, for the vector kernels.
//
// A magnitude 2^p * (1 + f/8) has the code 8p + f: eight steps per octave. Codes keep the order of
// magnitudes, and multiplying by a power of two adds a multiple of 8. Every nonzero e4m3 magnitude has such a
// code. Under a scale s the rules of FORMAT.md section 4 become integer arithmetic on codes, because each
// rule compares a magnitude with a constant c / s, and "magnitude > c / s" is "code > code_floor(c / s)":
//
//     exponent of the block   x = (code of the block's largest magnitude + offset) / 8 + constant
//     magnitude index         a small table of (code - 8 x)
//
// offset, constant and table depend only on s and cost a few divisions. A quotient c / s that equals a code's
// value is exact in float64; any other is at least 2^-33 (relative) away from one, so rounding never moves it
// across.
#pragma once

#include <cstdint>

namespace planesmith {

// Code of an e4m3 byte as the kernels hold it: 0 for zero, else the code above + kCodeBias (48 .. 190; NaN is
// 191).
inline constexpr int kCodeBias = 120;
inline constexpr int kMaxCode = 190;
// The bytes 0x08 .. 0x7E are codes already, but for this; subnormals are looked up.
inline constexpr int kNormalOffset = 64;
constexpr std::uint8_t e4m3_code(std::uint8_t byte) {
  constexpr std::uint8_t subnormal[8] = {0, 48, 56, 60, 64, 66, 68, 70};
  const unsigned magnitude = byte & 0x7Fu;
  return magnitude < 8 ? subnormal[magnitude] : static_cast<std::uint8_t>(magnitude + kNormalOffset);
}

// The codes of all bytes without their sign bit, for a table look-up.
struct E4m3Codes {
  alignas(64) std::uint8_t code[128];
};
constexpr E4m3Codes make_e4m3_codes() {
  E4m3Codes table{};
  for (unsigned b = 0; b < 128; ++b) table.code[b] = e4m3_code(static_cast<std::uint8_t>(b));
  return table;
}
inline constexpr E4m3Codes kE4m3Codes = make_e4m3_codes();

// For kernels that look up 16 bytes: e4m3_code(b) - (b + kNormalOffset) of the subnormals b, at 8 + b.
struct E4m3Corrections {
  alignas(16) std::uint8_t at[16];
};
constexpr E4m3Corrections make_e4m3_corrections() {
  E4m3Corrections table{};
  for (unsigned b = 0; b < 8; ++b)
    table.at[8 + b] = static_cast<std::uint8_t>(e4m3_code(static_cast<std::uint8_t>(b)) - b - kNormalOffset);
  return table;
}
inline constexpr E4m3Corrections kE4m3Corrections = make_e4m3_corrections();

// Whether the rules below hold for this scale: the 1e-30 of FORMAT.md section 4 changes nothing and no
// exponent is clamped. Other scales are left to the reference.
bool has_log_rule(double scale);

// FP8: the rule of one block scale. With step = (largest code + offset) & 0xF8:
//     scale byte = step / 8 + base;  nibble = index[saturating code - (step + shift)] ^ sign of the weight <<
//     3
struct Fp8Rule {
  std::uint8_t offset, base, shift;
  // The magnitude index, and 8 where the scale is negative.
  alignas(64) std::uint8_t index[64];
};
Fp8Rule fp8_rule(double scale);  // has_log_rule(scale)

// NVFP4: the rule of one scale_2 (its magnitude), for the code of a group's e4m3 scale and the e2m1 magnitude
// indices m. For a block of two groups, step is the larger of (code + add[largest m]) & 0xF8 over the groups
// that are not all zero:
//     scale byte = step / 8 + base
// For a group, level = saturating (code + kNvfp4Lift) - (step + shift). For an element of a group whose scale
// is not zero,
//     index[plus[m] | saturating level - minus[m]]
// is the magnitude index, or kZeroFlag where m is zero, in both nibbles of the byte.
inline constexpr int kNvfp4Lift = 40;
inline constexpr std::uint8_t kZeroFlag = 8;
struct Nvfp4Rule {
  std::uint8_t base, shift;
  std::uint8_t add[16], minus[8], plus[8];
  alignas(64) std::uint8_t index[128];
};
Nvfp4Rule nvfp4_rule(double scale_2);  // has_log_rule(scale_2)
// The results for m = 0 .. 7 at each level, for kernels that look up whole groups.
void nvfp4_group_maps(const Nvfp4Rule& rule, std::uint8_t maps[256][8]);

}  // namespace planesmith
