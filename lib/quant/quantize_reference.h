// The scalar kernels of quantize.h. The vector kernels use them for tails and for values outside their range.
#pragma once

#include "quant/float_errors.h"

namespace planesmith {

// The bits of the smallest float that is at least 6 sqrt(2) = 8.48528..., where MXFP4's exponent is rounded
// up.
inline constexpr std::uint32_t kSixRootTwo = 0x4107c3b7;

// Maps floor(z) + ceil(z), with z = 4 |w| / scale, to the magnitude index. On a threshold NVFP4 takes the
// even one of the two indices, MXFP4 the lower.
struct IndexTable {
  alignas(64) std::uint8_t at[64];
};
constexpr IndexTable make_index_table(bool ties_to_even) {
  constexpr unsigned kThreshold[7] = {1, 3, 5, 7, 10, 14, 20};
  IndexTable table{};
  for (unsigned place = 0; place < 64; ++place)
    for (unsigned i = 0; i < 7; ++i)
      if (place > 2 * kThreshold[i] || (ties_to_even && i % 2 == 1 && place == 2 * kThreshold[i]))
        ++table.at[place];
  return table;
}
inline constexpr IndexTable kToEven = make_index_table(true), kToLower = make_index_table(false);

float scalar_max_magnitude(const FloatValues& values) noexcept;
void scalar_to_nvfp4(const FloatValues& values, float scale_2, std::uint8_t* nibbles,
                     std::uint8_t* scales) noexcept;
void scalar_to_mxfp4(const FloatValues& values, std::uint8_t* nibbles, std::uint8_t* scales) noexcept;

// The scale of the planes that are served of a block of NVFP4, 32 columns (FORMAT.md section 4); half the
// scale of either group of 16.
double served_scale(const std::uint8_t* nibbles, const std::uint8_t scales[2], float scale_2,
                    double half_scales[2]) noexcept;
void scalar_add_errors(const FloatValues& weights, const std::uint8_t* nibbles, const std::uint8_t* scales,
                       float scale_2, FloatErrors& errors) noexcept;

}  // namespace planesmith
