#include "fidelity/float_cost.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

#include "format/number.h"

namespace planesmith {
namespace {

using namespace format;

constexpr unsigned kHalves = kMxfp4Group / kNvfp4Group;  // groups of NVFP4 in a block of the planes

// What the nibbles of a group stand for, and what is served for them.
struct Meaning {
  double nvfp4[16], served[16];
};

// Of the groups of one block, which shares a scale in the planes (FORMAT.md section 4).
void set_meanings(const std::uint8_t* nibbles, const std::uint8_t* scales, float scale_2,
                  Meaning (&meaning)[kHalves]) {
  double amax = 0;
  for (unsigned half = 0; half < kHalves; ++half) {
    const double scale = e4m3_value(scales[half]) * scale_2;
    for (unsigned n = 0; n < 16; ++n) meaning[half].nvfp4[n] = twice_value(n) * scale / 2;
    for (unsigned c = 0; c < kNvfp4Group; ++c)
      amax = std::max(amax, std::fabs(meaning[half].nvfp4[nibble_at(nibbles, half * kNvfp4Group + c)]));
  }
  const int exponent = scale_exponent(amax);
  const double scale = power_of_two(exponent), inverse = power_of_two(-exponent);
  for (Meaning& half : meaning)
    for (unsigned n = 0; n < 16; ++n) {
      const unsigned index = magnitude_index(std::fabs(half.nvfp4[n] * inverse));
      half.served[n] = level_of(code_of(index | (n & 8))) * scale;
    }
}

float widened(const FloatValues& values, std::uint64_t i) {
  if (values.type != FloatType::bf16) return value_at(values, i);
  std::uint16_t bits;
  std::memcpy(&bits, values.data + 2 * i, sizeof bits);
  return std::bit_cast<float>(std::uint32_t{bits} << 16);
}

}  // namespace

void FloatCosts::add(const FloatValues& weights, const std::uint8_t* nibbles, const std::uint8_t* scales,
                     float scale_2) {
  Meaning meaning[kHalves];
  for (std::uint64_t block = 0; block < weights.count / kMxfp4Group; ++block) {
    const std::uint8_t* const packed = nibbles + block * kMxfp4Group / 2;
    set_meanings(packed, scales + block * kHalves, scale_2, meaning);
    for (unsigned c = 0; c < kMxfp4Group; ++c) {
      const double w = widened(weights, block * kMxfp4Group + c);
      const unsigned nibble = nibble_at(packed, c);
      const Meaning& half = meaning[c / kNvfp4Group];
      magnitudes_ += std::fabs(w);
      squares_ += w * w;
      nvfp4_.add(half.nvfp4[nibble] - w);
      served_[0].add(half.served[nibble] - w);
      // A row's columns are whole blocks, so that a column's last bit is that of its place in the block.
      served_[1].add(half.served[(nibble & 7) == 0 ? (c & 1) << 3 : nibble] - w);
    }
  }
}

FloatCost FloatCosts::cost(const Errors& errors) const {
  if (squares_ == 0) return {};
  return {errors.sum / magnitudes_, std::sqrt(errors.squares / squares_)};
}

}  // namespace planesmith
