// Part of avx2.cc and avx512.cc, after bf16_avx2.inl or bf16_avx512.inl: BF16 weights to NVFP4 in their own
// 16 bits, by cutoffs (bf16_cutoffs.h) instead of divisions.

// The nibbles of a group, in words. The sign is that of values below zero, which -0 is not.
OP __m256i nibbles_of_group(const std::uint8_t* from, const Bf16Cutoffs& cutoffs, const CutoffCells& cells,
                            unsigned scale) {
  const Bf16Cutoffs::Scale& at = cutoffs.of[scale];
  const __m256i w = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from));
  const __m256i above = _mm256_adds_epu16(_mm256_and_si256(w, _mm256_set1_epi16(0x7FFF)),
                                          _mm256_set1_epi32(static_cast<int>(at.offset)));
  const __m256i place = _mm256_subs_epu16(above, _mm256_set1_epi16(static_cast<short>(Bf16Cutoffs::kFloor)));
  const __m256i cell = _mm256_mulhi_epu16(place, _mm256_set1_epi16(Bf16Cutoffs::kCellFactor));
  const __m256i index =
      _mm256_srli_epi16(_mm256_add_epi16(cells.look_up(at.row, cell), place), Bf16Cutoffs::kUnitBits);
  return with_signs(index, w);
}

// Four groups, packed.
OP void put_groups(const __m256i groups[4], std::uint8_t* to) {
  const __m256i weights = _mm256_set1_epi16(0x1001);
  const __m256i a = _mm256_maddubs_epi16(_mm256_packus_epi16(groups[0], groups[1]), weights);
  const __m256i b = _mm256_maddubs_epi16(_mm256_packus_epi16(groups[2], groups[3]), weights);
  // Lane l: four bytes of the l-th half of each group.
  const __m256i order = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7);
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(to),
                      _mm256_permutevar8x32_epi32(_mm256_packus_epi16(a, b), order));
}

// Scales come at the end of a long chain of operations: those of several batches are computed at once.
template <>
void nvfp4_batches<FloatType::bf16>(const std::uint8_t* from, std::uint64_t batches, float scale_2,
                                    std::uint8_t* nibbles, std::uint8_t* scales) {
  constexpr std::uint64_t kAtOnce = 4, kGroupBytes = 2 * kNvfp4Group;
  if (batches == 0) return;
  const Bf16Cutoffs cutoffs(scale_2);
  const CutoffCells cells(cutoffs);
  for (std::uint64_t done = 0; done < batches; done += kAtOnce) {
    const std::uint64_t end = batches - done < kAtOnce ? batches : done + kAtOnce;
    for (std::uint64_t b = done; b < end; ++b)
      scale_groups(from + b * kGroups * kGroupBytes, scale_2, scales + b * kGroups);
    for (std::uint64_t g = done * kGroups; g < end * kGroups; g += 4) {
      __m256i out[4];
      for (unsigned i = 0; i < 4; ++i)
        out[i] = nibbles_of_group(from + (g + i) * kGroupBytes, cutoffs, cells, scales[g + i]);
      put_groups(out, nibbles + g * kNvfp4Group / 2);
    }
  }
}
