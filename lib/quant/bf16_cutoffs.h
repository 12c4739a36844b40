// NVFP4 codes of BF16 weights without a division. The code of a quotient grows with the weight, so each
// threshold of e2m1 has a cutoff for each scale: the least weight that reaches it. Magnitudes compare as
// their bits do.
#pragma once

#include <cstdint>

namespace planesmith {

// Doubling the scale doubles the cutoffs, so their pattern is the same for all scales of one mantissa. The
// place of a magnitude is its bits less those of the least cutoff, clamped to 0 .. kSpan, a span that holds
// all cutoffs. The span is cut into 16 cells, so narrow that none holds two cutoffs. A cell's entry is the
// number of cutoffs before it times kUnit, plus, where a cutoff is in it, kUnit less the place of that
// cutoff. Entry + place, divided by kUnit, is then the number of cutoffs that the magnitude reaches: the
// magnitude index of its code.
struct Bf16Cutoffs {
  static constexpr unsigned kSpan = 575, kUnitBits = 10, kUnit = 1 << kUnitBits;
  static constexpr unsigned kCellFactor = 1821;  // place * kCellFactor / 2^16 is the cell
  static constexpr unsigned kFloor = 65535 - kSpan;

  // scale_2: from kLeast to kMost. Finds the cutoffs by asking the reference.
  static constexpr float kLeast = 0x1p-80f, kMost = 0x1p6f;
  explicit Bf16Cutoffs(float scale_2) noexcept;

  // For each e4m3 scale: `offset`, in both 16-bit halves, added to a magnitude with unsigned saturation gives
  // kFloor + its place, or less below the first cutoff; `row` is the row of `cells`.
  struct Scale {
    std::uint32_t offset, row;
  };
  alignas(64) std::uint16_t cells[8][16];  // by mantissa
  Scale of[127];
};

}  // namespace planesmith
