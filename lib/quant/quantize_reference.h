// The scalar entries of the table, which the vector kernels use for tails and for values out of their range.
#pragma once

#include "quant/quantize.h"

namespace planesmith {

// The bits of the smallest float that is not below 6 sqrt(2), where MXFP4's exponent goes up.
inline constexpr std::uint32_t kSixRootTwo = 0x4107c3b7;

// The magnitude index by floor(z) + ceil(z), where z is 4 |w| / scale. On a threshold NVFP4 takes the even
// index of the two, MXFP4 the lower.
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

}  // namespace planesmith
