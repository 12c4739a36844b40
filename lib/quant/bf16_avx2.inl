// Part of avx2.cc: what bf16_x86.inl needs of this instruction set.

// The scales of 16 groups.
OP void scale_groups(const std::uint8_t* from, float scale_2, std::uint8_t* scales) {
  alignas(32) std::uint32_t most[kGroups];  // the bits of floats
  for (unsigned g = 0; g < kGroups; ++g) {
    const V v = load(from + g * kV) & words(0x7FFF);
    const Lane half = _mm_max_epu16(_mm256_castsi256_si128(v), _mm256_extracti128_si256(v, 1));
    // There is an instruction for the smallest of eight words.
    const Lane inverse = _mm_minpos_epu16(_mm_xor_si128(half, _mm_set1_epi8(-1)));
    most[g] = ~static_cast<std::uint32_t>(_mm_cvtsi128_si32(inverse)) << 16;
    prefetch(from + kFetchAhead + g * kV);
  }
  F amax;
  std::memcpy(&amax, most, sizeof amax);
  round_to_e4m3(amax / every(6.f * scale_2), scales);
}

// Words by a table of the low bytes and one of the high ones: there is no look-up of words.
class CutoffCells {
 public:
  OP explicit CutoffCells(const Bf16Cutoffs& cutoffs) {
    for (unsigned row = 0; row < 8; ++row)
      for (unsigned cell = 0; cell < 16; ++cell) {
        low_[row][cell] = static_cast<std::uint8_t>(cutoffs.cells[row][cell]);
        high_[row][cell] = static_cast<std::uint8_t>(cutoffs.cells[row][cell] >> 8);
      }
  }
  OP V look_up(unsigned row, V cell) const {
    // An index of 128 or more gives 0.
    return shuffle(every_lane(load16(low_[row])), cell | words(0x8000)) |
           shuffle(every_lane(load16(high_[row])), shift_left16<8>(cell) | words(0x80));
  }

 private:
  alignas(16) std::uint8_t low_[8][16], high_[8][16];
};

OP V with_signs(V index, V weights) {
  const V below_zero = _mm256_subs_epu16(weights, words(1));  // the top bit
  return index | (shift_right16<12>(below_zero) & words(8));
}
