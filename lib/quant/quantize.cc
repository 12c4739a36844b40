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

// Half the values of scales.
struct HalfTable {
  double of[128];
};
constexpr HalfTable make_half_table() {
  HalfTable table{};
  for (unsigned b = 0; b < 128; ++b) table.of[b] = e4m3_value(static_cast<std::uint8_t>(b)) / 2;
  return table;
}
constexpr HalfTable kHalfE4m3 = make_half_table();

template <unsigned kGroup, class Quantize>
void groups(const FloatValues& values, std::uint8_t* nibbles, std::uint8_t* scales, Quantize quantize) {
  for (std::uint64_t group = 0; group < values.count / kGroup; ++group) {
    float weight[kGroup];
    for (unsigned i = 0; i < kGroup; ++i) weight[i] = value_at(values, group * kGroup + i);
    std::uint32_t packed[kGroup / 8];
    scales[group] = quantize(weight, packed);
    std::memcpy(nibbles + group * kGroup / 2, packed, sizeof packed);
  }
}

}  // namespace

float scalar_max_magnitude(const FloatValues& values) noexcept {
  std::uint32_t most = 0;
  for (std::uint64_t i = 0; i < values.count; ++i) most = std::max(most, magnitude_bits(value_at(values, i)));
  return float_of(most);
}

void scalar_to_nvfp4(const FloatValues& values, float scale_2, std::uint8_t* nibbles,
                     std::uint8_t* scales) noexcept {
  groups<kNvfp4Group>(values, nibbles, scales, [&](const float* weight, std::uint32_t* packed) {
    return nvfp4_group(weight, scale_2, packed);
  });
}

void scalar_to_mxfp4(const FloatValues& values, std::uint8_t* nibbles, std::uint8_t* scales) noexcept {
  groups<kMxfp4Group>(values, nibbles, scales, mxfp4_group);
}

double served_scale(const std::uint8_t* nibbles, const std::uint8_t scales[2], float scale_2,
                    double half_scales[2]) noexcept {
  double amax = 0;
  for (unsigned half = 0; half < 2; ++half) {
    half_scales[half] = kHalfE4m3.of[scales[half] & 0x7F] * scale_2;
    // The highest magnitude index, from its top bit down. among: the nibbles with the largest bits so far.
    std::uint64_t all, among = 0x1111111111111111;
    std::memcpy(&all, nibbles + half * sizeof all, sizeof all);
    unsigned index = 0;
    for (unsigned bit = 3; bit-- > 0;) {
      const std::uint64_t with = all >> bit & among;
      among = with != 0 ? with : among;
      index |= (with != 0 ? 1u : 0u) << bit;
    }
    amax = std::max(amax, twice_magnitude(index) * half_scales[half]);
  }
  // A power of two by its exponent's bits, at most 127 from 0.
  return std::bit_cast<double>(static_cast<std::uint64_t>(scale_exponent(amax) + 1023) << 52);
}

void scalar_add_errors(const FloatValues& weights, const std::uint8_t* nibbles, const std::uint8_t* scales,
                       float scale_2, FloatErrors& errors) noexcept {
  for (std::uint64_t block = 0; block < weights.count / kMxfp4Group; ++block) {
    const std::uint8_t* const packed = nibbles + block * kMxfp4Group / 2;
    double half_scales[2];
    const double one = served_scale(packed, scales + 2 * block, scale_2, half_scales);
    for (unsigned c = 0; c < kMxfp4Group; ++c) {
      const double w = value_at(weights, block * kMxfp4Group + c);
      const unsigned nibble = nibble_at(packed, c), lane = c % ErrorSums::kLanes;
      const double value = twice_value(nibble) * half_scales[c / kNvfp4Group];
      const auto served = [&](unsigned sign) {
        return level_of(code_of(magnitude_index(std::fabs(value) / one) | sign)) * one;
      };
      errors.weights.add(lane, std::fabs(w));
      errors.nvfp4.add(lane, value - w);
      errors.kept.add(lane, served(nibble & 8) - w);
      // A row's columns are whole blocks, so that a column's last bit is that of its place in the block.
      errors.alternated.add(lane, served((nibble & 7) == 0 ? (c & 1) << 3 : nibble & 8) - w);
    }
  }
}

}  // namespace planesmith
