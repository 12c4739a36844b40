// NVFP4 codes of BF16 weights without a division. What a quotient rounds to grows with the weight, so that
// each threshold of e2m1 has a cutoff for each scale: the least weight that reaches it; and magnitudes
// compare as their bits do.
#pragma once

#include <cstdint>

namespace planesmith {

// Cutoffs double with the scale, which adds to their exponents: they lie the same way for all scales of one
// mantissa. A magnitude's bits, counted from the least cutoff, are its place, 0 to kSpan, and this span, in
// which all cutoffs are, is cut into 16 cells so narrow that none holds two. To a cell belongs the number of
// cutoffs before it times kUnit, and, where one is in it, what that one's place lacks to kUnit: with a place
// added, the units are the number of cutoffs that are not above it, which is the code's magnitude index.
struct Bf16Cutoffs {
  static constexpr unsigned kSpan = 575, kUnitBits = 10, kUnit = 1 << kUnitBits;
  static constexpr unsigned kCellFactor = 1821;  // place * kCellFactor / 2^16 is the cell
  static constexpr unsigned kFloor = 65535 - kSpan;

  // scale_2 from kLeast to kMost. The reference decides; this looks for where it changes its mind.
  static constexpr float kLeast = 0x1p-80f, kMost = 0x1p6f;
  explicit Bf16Cutoffs(float scale_2) noexcept;

  // For each e4m3 scale: what, added to a magnitude with unsigned saturation, gives kFloor + its place, or
  // less before the first cutoff; in both halves. And the row of `cells`.
  struct Scale {
    std::uint32_t offset, row;
  };
  alignas(64) std::uint16_t cells[8][16];  // by mantissa
  Scale of[127];
};

}  // namespace planesmith
