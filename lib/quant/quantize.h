// From the float weights that models are trained in to FP4: what `repack-experts quantize` computes. The
// kernels themselves are in the table of kernels.h; here are their types and the scalar reference's pieces.
#pragma once

#include <cstdint>

#include "format/slice.h"

namespace planesmith {

enum class FloatType : std::uint8_t { bf16, f16, f32 };
constexpr std::uint64_t bytes_of(FloatType type) {
  return type == FloatType::f32 ? 4 : 2;
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
// One of them, widened (exactly).
float value_at(const FloatValues& values, std::uint64_t i) noexcept;

// --- NVFP4 as modelopt 0.47 exports it; everything in float32, each operation rounded ---

// weight_scale_2 of a tensor (gate and up of an expert together) whose largest magnitude is amax: amax /
// 2688. Where that is 0, 1: all weights are zero, or vanish beside any scale, and the scales stay finite.
float nvfp4_scale_2(float amax) noexcept;
// The e4m3 byte nearest to `scale`, ties to even, after 0 became 1 and the rest was clamped to 2^-9 .. 448.
std::uint8_t nvfp4_scale(float scale) noexcept;
// The nibble nearest to weight / scale, ties to even; the sign bit where the quotient is below zero.
unsigned nvfp4_nibble(float weight, float scale) noexcept;
// A whole group: the packed nibbles (8 bytes) and the scale's byte.
std::uint8_t nvfp4_group(const float weight[kNvfp4Group], float scale_2, std::uint8_t* nibbles) noexcept;

}  // namespace planesmith
