// Part of avx512.cc: converts BF16 weights to FP4 as 16-bit integers, 32 values in a register, without
// widening them to floats and without a division.

// The largest magnitude of each of 16 groups, as floats; group 4j + l is element 4l + j. Register r holds
// groups 2r and 2r + 1 without signs, 16 values each.
OP F largest_of_groups(const V v[8]) {
  V lanes[4];  // lane l of the k-th: group 4k + l
  for (unsigned k = 0; k < 4; ++k)
    lanes[k] = larger16(_mm512_shuffle_i64x2(v[2 * k], v[2 * k + 1], 0x88),
                        _mm512_shuffle_i64x2(v[2 * k], v[2 * k + 1], 0xDD));
  const V a = larger16(low32(lanes[0], lanes[1]), high32(lanes[0], lanes[1]));
  const V b = larger16(low32(lanes[2], lanes[3]), high32(lanes[2], lanes[3]));
  const V pairs = larger16(low64(a, b), high64(a, b));
  return _mm512_castsi512_ps(_mm512_and_si512(larger16(pairs, shift_left32<16>(pairs)), dwords(0xFFFF0000)));
}
// Brings 16 scale bytes from that order into the order of groups.
OP void reorder_scales(std::uint8_t* scales) {
  const __m128i order = _mm_setr_epi8(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
  auto* const at = reinterpret_cast<__m128i*>(scales);
  _mm_storeu_si128(at, _mm_shuffle_epi8(_mm_loadu_si128(at), order));
}

// Packs 128 nibbles that are in words, 32 in a register.
OP void put_words(const V nibbles[4], std::uint8_t* to) {
  V pairs[4];
  for (unsigned i = 0; i < 4; ++i) pairs[i] = _mm512_madd_epi16(nibbles[i], dwords(0x100001));
  const V packed =
      _mm512_packus_epi16(_mm512_packus_epi32(pairs[0], pairs[1]), _mm512_packus_epi32(pairs[2], pairs[3]));
  // Lane l now has four bytes of lane l of each of the four registers.
  store(to, _mm512_permutexvar_epi32(_mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15),
                                     packed));
}

// Writes the scale bytes of 16 groups.
OP void scale_groups(const std::uint8_t* from, float scale_2, std::uint8_t* scales) {
  V magnitudes[8];
  for (unsigned r = 0; r < 8; ++r) {
    magnitudes[r] = load(from + r * kV) & words(0x7FFF);
    prefetch(from + kFetchAhead + r * kV);
  }
  round_to_e4m3(largest_of_groups(magnitudes) / every(6.f * scale_2), scales);
  reorder_scales(scales);
}

struct CutoffCells {
  const Bf16Cutoffs& cutoffs;
  OP explicit CutoffCells(const Bf16Cutoffs& of) : cutoffs(of) {}
  OP __m256i look_up(unsigned row, __m256i cell) const {
    return _mm256_permutexvar_epi16(cell,
                                    _mm256_load_si256(reinterpret_cast<const __m256i*>(cutoffs.cells[row])));
  }
};

OP __m256i with_signs(__m256i index, __m256i weights) {
  const __mmask16 negative = _mm256_cmpgt_epu16_mask(weights, _mm256_set1_epi16(static_cast<short>(0x8000)));
  return _mm256_mask_add_epi16(index, negative, index, _mm256_set1_epi16(8));
}

// MXFP4's thresholds are BF16 values at fixed distances from the scale's exponent. With the exponent of 2^-3
// times the scale subtracted, every threshold is a multiple of 32: 128 for .25, up to 672 for 5.
struct Mxfp4Indices {
  alignas(64) std::uint16_t of[32] = {};  // by (magnitude - 1) / 32
};
constexpr Mxfp4Indices make_mxfp4_indices() {
  Mxfp4Indices indices;
  for (const unsigned threshold : {128u, 320u, 416u, 480u, 544u, 608u, 672u})
    for (unsigned place = threshold / 32; place < 32; ++place) ++indices.of[place];
  return indices;
}
constexpr Mxfp4Indices kMxfp4Indices = make_mxfp4_indices();

template <>
bool mxfp4_groups<FloatType::bf16>(const std::uint8_t* from, std::uint8_t* nibbles, std::uint8_t* scales) {
  V pairs[8];
  for (unsigned r = 0; r < 8; ++r) {
    const V a = load(from + 2 * r * kV), b = load(from + (2 * r + 1) * kV);
    pairs[r] = larger16(_mm512_shuffle_i64x2(a, b, 0x44) & words(0x7FFF),
                        _mm512_shuffle_i64x2(a, b, 0xEE) & words(0x7FFF));
    prefetch(from + kFetchAhead + 2 * r * kV);
    prefetch(from + kFetchAhead + (2 * r + 1) * kV);
  }
  const F amax = largest_of_groups(pairs);
  if (any_small(amax)) return false;
  alignas(64) std::uint32_t exponent[kGroups];  // of 2^-3 times the scale; 0 where BF16 cannot hold that
  const V byte = exponent_bytes(amax, scales);
  store(reinterpret_cast<std::uint8_t*>(exponent),
        shift_left32<7>(_mm512_max_epi32(_mm512_sub_epi32(byte, dwords(3)), dwords(0))));
  reorder_scales(scales);
  const V indices = load(reinterpret_cast<const std::uint8_t*>(kMxfp4Indices.of));
  for (unsigned g = 0; g < kGroups; g += 4) {
    V out[4];
    for (unsigned i = 0; i < 4; ++i) {
      const V w = load(from + (g + i) * kV);
      const V above = _mm512_subs_epu16(w & words(0x7FFF), words(exponent[4 * i + g / 4] + 1));
      const V index = _mm512_permutexvar_epi16(shift_right16<5>(above), indices);
      out[i] = _mm512_ternarylogic_epi32(shift_right16<12>(w), words(8), index, 0xEA);
    }
    put_words(out, nibbles + g / 4 * kV);
  }
  return true;
}
