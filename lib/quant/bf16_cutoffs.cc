#include "quant/bf16_cutoffs.h"

#include <bit>

#include "format/number.h"
#include "quant/quantize.h"

namespace planesmith {
namespace {

constexpr unsigned kDoubled = 0x80;  // adds 1 to the exponent of BF16 bits

float of_bf16(unsigned bits) {
  return std::bit_cast<float>(bits << 16);
}

// The bits of the least BF16 whose magnitude index is above `index`.
unsigned cutoff(float scale, float threshold, unsigned index) {
  unsigned bits = std::bit_cast<std::uint32_t>(threshold * scale) >> 16;
  while (nvfp4_nibble(of_bf16(bits), scale) > index) --bits;
  while (nvfp4_nibble(of_bf16(bits), scale) <= index) ++bits;
  return bits;
}

}  // namespace

Bf16Cutoffs::Bf16Cutoffs(float scale_2) noexcept {
  unsigned first[8];  // the least cutoff of a scale of each mantissa with exponent 0
  for (unsigned mantissa = 0; mantissa < 8; ++mantissa) {
    const float scale = static_cast<float>(8 + mantissa) / 8 * scale_2;
    const unsigned one = cutoff(scale, 1.25f, 2), two = cutoff(scale, 1.75f, 3);
    const unsigned at[7] = {cutoff(scale, .25f, 0), cutoff(scale, .75f, 1), one, two, one + kDoubled,
                            two + kDoubled,         one + 2 * kDoubled};
    first[mantissa] = at[0];
    unsigned before = 0;
    for (unsigned cell = 0; cell < 16; ++cell) {
      cells[mantissa][cell] = static_cast<std::uint16_t>(before * kUnit);
      if (before == 7) continue;
      const unsigned place = at[before] - at[0] + 1;  // place 0 is below the first cutoff, which is at 1
      if (place * kCellFactor >> 16 != cell) continue;
      cells[mantissa][cell] = static_cast<std::uint16_t>((before + 1) * kUnit - place);
      ++before;
    }
  }
  for (unsigned code = 0; code < 127; ++code) {
    // Normalize subnormal scales: the bits below the leading one are the mantissa.
    const unsigned exponent = code >> 3, lead = code < 8 ? std::bit_width(code | 1) - 1u : 3;
    const unsigned mantissa = (code & 7) << (3 - lead) & 7;
    const int doublings = exponent == 0 ? static_cast<int>(lead) - 9 : static_cast<int>(exponent) - 7;
    const unsigned start = first[mantissa] - 1 + kDoubled * static_cast<unsigned>(doublings);
    of[code] = {(kFloor - start) * 0x10001u, mantissa};
  }
}

}  // namespace planesmith
