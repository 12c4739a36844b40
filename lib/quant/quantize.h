// From the float weights that models are trained in to FP4: what `repack-experts quantize` computes. The
// kernels themselves are in the table of kernels.h and in cuda/; here are their types and the scalar
// reference's pieces, which GPUs run, too.
#pragma once

#include <cstdint>
#include <cstring>

#include "format/slice.h"

namespace planesmith {

enum class FloatType : std::uint8_t { bf16, f16, f32 };
PLANESMITH_HD constexpr std::uint64_t bytes_of(FloatType type) {
  return type == FloatType::f32 ? 4 : 2;
}

enum class Fp4 : std::uint8_t { nvfp4, mxfp4 };
PLANESMITH_HD constexpr std::uint64_t group_of(Fp4 to) {  // values that share a scale
  return to == Fp4::nvfp4 ? kNvfp4Group : kMxfp4Group;
}

// `count` values one after the other, little-endian, any alignment.
struct FloatValues {
  const std::uint8_t* data;
  FloatType type;
  std::uint64_t count;

  FloatValues part(std::uint64_t first, std::uint64_t n) const {
    return {data + first * bytes_of(type), type, n};
  }
};

// std::bit_cast does not exist in device code.
PLANESMITH_HD inline std::uint32_t bits_of(float value) {
  std::uint32_t bits;
  std::memcpy(&bits, &value, sizeof bits);
  return bits;
}
PLANESMITH_HD inline float float_of(std::uint32_t bits) {
  float value;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}
// The order of magnitudes is that of these bits, infinity and NaN above all.
PLANESMITH_HD inline std::uint32_t magnitude_bits(float value) {
  return bits_of(value) & 0x7FFFFFFF;
}

PLANESMITH_HD inline float widen_f16(std::uint16_t half) {
  const std::uint32_t exponent = half >> 10 & 31, mantissa = half & 1023;
  float magnitude;
  if (exponent == 31)
    magnitude = float_of(0x7F800000u | mantissa << 13);
  else if (exponent == 0)
    magnitude = static_cast<float>(mantissa) * 0x1p-24f;
  else
    magnitude = float_of((exponent + 112) << 23 | mantissa << 13);
  return half & 0x8000 ? -magnitude : magnitude;
}
// A value, widened (exactly).
PLANESMITH_HD inline float value_at(const FloatValues& values, std::uint64_t i) noexcept {
  const std::uint8_t* const at = values.data + i * bytes_of(values.type);
  if (values.type == FloatType::f32) {
    float value;
    std::memcpy(&value, at, sizeof value);
    return value;
  }
  std::uint16_t half;
  std::memcpy(&half, at, sizeof half);
  return values.type == FloatType::bf16 ? float_of(std::uint32_t{half} << 16) : widen_f16(half);
}

// --- NVFP4 as modelopt 0.47 exports it; everything in float32, each operation rounded ---

// weight_scale_2 of a tensor (gate and up of an expert together) whose largest magnitude is amax: amax /
// 2688. Where that is 0, 1: all weights are zero, or vanish beside any scale, and the scales stay finite.
PLANESMITH_HD inline float nvfp4_scale_2(float amax) noexcept {
  const float scale = amax / 2688.f;
  return scale == 0 ? 1.f : scale;
}
// The e4m3 byte nearest to `scale`, ties to even, after 0 became 1 and the rest was clamped to 2^-9 .. 448.
PLANESMITH_HD inline std::uint8_t nvfp4_scale(float scale) noexcept {
  if (scale == 0) scale = 1;
  scale = scale < 0x1p-9f ? 0x1p-9f : scale > 448.f ? 448.f : scale;
  // Subnormal: multiples of 2^-9, which are whole numbers beside 2^23; 8 is the first normal.
  if (scale < 0x1p-6f) return static_cast<std::uint8_t>(bits_of(scale * 0x1p9f + 0x1p23f) & 15);
  const std::uint32_t bits = bits_of(scale);
  return static_cast<std::uint8_t>(((bits + 0x7FFFF + (bits >> 20 & 1)) >> 20) - (120 << 3));
}
// The nibble nearest to weight / scale, ties to even; the sign bit where the quotient is below zero.
PLANESMITH_HD inline unsigned nvfp4_nibble(float weight, float scale) noexcept {
  // On a threshold: the even index of the two, so that every other threshold counts when it is reached.
  constexpr float kThreshold[7] = {.25f, .75f, 1.25f, 1.75f, 2.5f, 3.5f, 5.f};
  const float quotient = weight / scale, magnitude = quotient < 0 ? -quotient : quotient;
  unsigned index = 0;
  for (int i = 0; i < 7; ++i) index += i % 2 ? magnitude >= kThreshold[i] : magnitude > kThreshold[i];
  return index | (quotient < 0 ? 8u : 0u);
}
// A whole group: the nibbles, eight to a word, and the scale's byte.
PLANESMITH_HD inline std::uint8_t nvfp4_group(const float weight[kNvfp4Group], float scale_2,
                                              std::uint32_t nibbles[kNvfp4Group / 8]) noexcept {
  std::uint32_t most = 0;
  for (unsigned i = 0; i < kNvfp4Group; ++i)
    most = most < magnitude_bits(weight[i]) ? magnitude_bits(weight[i]) : most;
  const std::uint8_t byte = nvfp4_scale(float_of(most) / (6.f * scale_2));
  const float scale = static_cast<float>(format::e4m3_value(byte)) * scale_2;
  for (unsigned word = 0; word < kNvfp4Group / 8; ++word) {
    nibbles[word] = 0;
    for (unsigned i = 0; i < 8; ++i) nibbles[word] |= nvfp4_nibble(weight[8 * word + i], scale) << 4 * i;
  }
  return byte;
}

// --- MXFP4 by FORMAT.md section 4 ---

PLANESMITH_HD inline std::uint8_t mxfp4_group(const float weight[kMxfp4Group],
                                              std::uint32_t nibbles[kMxfp4Group / 8]) noexcept {
  std::uint32_t most = 0;
  for (unsigned i = 0; i < kMxfp4Group; ++i)
    most = most < magnitude_bits(weight[i]) ? magnitude_bits(weight[i]) : most;
  const int exponent = format::scale_exponent(double{float_of(most)});
  const double inverse = format::power_of_two(-exponent);
  for (unsigned word = 0; word < kMxfp4Group / 8; ++word) {
    nibbles[word] = 0;
    for (unsigned i = 0; i < 8; ++i) {
      const float w = weight[8 * word + i];
      const unsigned index = format::magnitude_index(float_of(magnitude_bits(w)) * inverse);
      nibbles[word] |= (index | bits_of(w) >> 31 << 3) << 4 * i;
    }
  }
  return static_cast<std::uint8_t>(exponent + 127);
}

}  // namespace planesmith
