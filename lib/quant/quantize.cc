// The scalar reference of quantize.h, and what the vector kernels fall back to.
#include "quant/quantize.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

#include "format/number.h"
#include "quant/quantize_reference.h"

namespace planesmith {
namespace {

using namespace format;

template <typename Word>
Word word_at(const std::uint8_t* from) {
  Word word;
  std::memcpy(&word, from, sizeof word);
  return word;
}

float widen_f16(std::uint16_t half) {
  const std::uint32_t exponent = half >> 10 & 31, mantissa = half & 1023;
  float magnitude;
  if (exponent == 31)
    magnitude = std::bit_cast<float>(0x7F800000u | mantissa << 13);
  else if (exponent == 0)
    magnitude = static_cast<float>(mantissa) * 0x1p-24f;
  else
    magnitude = std::bit_cast<float>((exponent + 112) << 23 | mantissa << 13);
  return half & 0x8000 ? -magnitude : magnitude;
}

void pack(const unsigned* nibbles, std::uint64_t count, std::uint8_t* to) {
  for (std::uint64_t i = 0; i < count; i += 2)
    to[i / 2] = static_cast<std::uint8_t>(nibbles[i] | nibbles[i + 1] << 4);
}

}  // namespace

float value_at(const FloatValues& values, std::uint64_t i) noexcept {
  const std::uint8_t* at = values.data + i * bytes_of(values.type);
  switch (values.type) {
    case FloatType::bf16:
      return std::bit_cast<float>(std::uint32_t{word_at<std::uint16_t>(at)} << 16);
    case FloatType::f16:
      return widen_f16(word_at<std::uint16_t>(at));
    case FloatType::f32:
      break;
  }
  return word_at<float>(at);
}

float nvfp4_scale_2(float amax) noexcept {
  const float scale = amax / 2688.f;
  return scale == 0 ? 1.f : scale;
}

std::uint8_t nvfp4_scale(float scale) noexcept {
  if (scale == 0) scale = 1;
  scale = std::clamp(scale, 0x1p-9f, 448.f);
  if (scale <
      0x1p-6f)  // subnormal: multiples of 2^-9; nearbyint rounds ties to even, and 8 is the first normal
    return static_cast<std::uint8_t>(std::nearbyint(scale * 0x1p9f));
  const auto bits = std::bit_cast<std::uint32_t>(scale);
  return static_cast<std::uint8_t>((bits + 0x7FFFF + (bits >> 20 & 1)) >> 20) -
         static_cast<std::uint8_t>(120 << 3);
}

unsigned nvfp4_nibble(float weight, float scale) noexcept {
  // On a threshold: the even index of the two, so that every other threshold counts when it is reached.
  constexpr float kThreshold[7] = {.25f, .75f, 1.25f, 1.75f, 2.5f, 3.5f, 5.f};
  const float quotient = weight / scale, magnitude = std::fabs(quotient);
  unsigned index = 0;
  for (int i = 0; i < 7; ++i) index += i % 2 ? magnitude >= kThreshold[i] : magnitude > kThreshold[i];
  return index | (quotient < 0 ? 8u : 0u);
}

std::uint8_t nvfp4_group(const float weight[kNvfp4Group], float scale_2, std::uint8_t* nibbles) noexcept {
  float amax = 0;
  for (std::uint64_t i = 0; i < kNvfp4Group; ++i) amax = std::max(amax, std::fabs(weight[i]));
  const std::uint8_t byte = nvfp4_scale(amax / (6.f * scale_2));
  const float scale = static_cast<float>(e4m3_value(byte)) * scale_2;
  unsigned nibble[kNvfp4Group];
  for (std::uint64_t i = 0; i < kNvfp4Group; ++i) nibble[i] = nvfp4_nibble(weight[i], scale);
  pack(nibble, kNvfp4Group, nibbles);
  return byte;
}

float scalar_max_magnitude(const FloatValues& values) noexcept {
  std::uint32_t most = 0;  // the order of magnitudes is that of their bits, infinity and NaN above all
  for (std::uint64_t i = 0; i < values.count; ++i)
    most = std::max(most, std::bit_cast<std::uint32_t>(value_at(values, i)) & 0x7FFFFFFF);
  return std::bit_cast<float>(most);
}

void scalar_to_nvfp4(const FloatValues& values, float scale_2, std::uint8_t* nibbles,
                     std::uint8_t* scales) noexcept {
  for (std::uint64_t group = 0; group < values.count / kNvfp4Group; ++group) {
    float weight[kNvfp4Group];
    for (std::uint64_t i = 0; i < kNvfp4Group; ++i) weight[i] = value_at(values, group * kNvfp4Group + i);
    scales[group] = nvfp4_group(weight, scale_2, nibbles + group * kNvfp4Group / 2);
  }
}

void scalar_to_mxfp4(const FloatValues& values, std::uint8_t* nibbles, std::uint8_t* scales) noexcept {
  for (std::uint64_t group = 0; group < values.count / kMxfp4Group; ++group) {
    double weight[kMxfp4Group], amax = 0;
    for (std::uint64_t i = 0; i < kMxfp4Group; ++i) {
      weight[i] = value_at(values, group * kMxfp4Group + i);
      amax = std::max(amax, std::fabs(weight[i]));
    }
    const int exponent = scale_exponent(amax);
    const double inverse = power_of_two(-exponent);
    unsigned nibble[kMxfp4Group];
    for (std::uint64_t i = 0; i < kMxfp4Group; ++i)
      nibble[i] = magnitude_index(std::fabs(weight[i] * inverse)) | (std::signbit(weight[i]) ? 8u : 0u);
    pack(nibble, kMxfp4Group, nibbles + group * kMxfp4Group / 2);
    scales[group] = static_cast<std::uint8_t>(exponent + 127);
  }
}

}  // namespace planesmith
