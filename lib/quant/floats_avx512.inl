// Part of avx512.cc: 16 floats in one register, for vector_quantize.inl.

using F = __m512;

OP V larger16(V a, V b) {
  return _mm512_max_epu16(a, b);
}
OP V larger32(V a, V b) {
  return _mm512_max_epu32(a, b);
}

template <FloatType kType>
OP F load_floats(const std::uint8_t* from) {
  if constexpr (kType == FloatType::f32) return _mm512_loadu_ps(from);
  const __m256i halves = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from));
  if constexpr (kType == FloatType::f16) return _mm512_cvtph_ps(halves);
  return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(halves), 16));
}
OP F get_floats(const float* from) {
  return _mm512_load_ps(from);
}
OP void store_floats(float* to, F v) {
  _mm512_store_ps(to, v);
}
OP F every(float x) {
  return _mm512_set1_ps(x);
}
OP F magnitude(F v) {
  return _mm512_castsi512_ps(_mm512_and_si512(_mm512_castps_si512(v), _mm512_set1_epi32(0x7FFFFFFF)));
}
OP F larger(F a, F b) {
  return _mm512_max_ps(a, b);
}
OP F smaller(F a, F b) {
  return _mm512_min_ps(a, b);
}
OP __mmask16 below_zero(F v) {
  return _mm512_cmp_ps_mask(v, _mm512_setzero_ps(), _CMP_LT_OQ);
}
OP __mmask16 sign_bit(F v) {
  return _mm512_movepi32_mask(_mm512_castps_si512(v));
}

// Element i is the largest of v[i]. Each step folds two registers into one.
OP F largest_of_each(const F v[16]) {
  F eight[8], four[4];
  for (unsigned i = 0; i < 8; ++i) {
    const F a = v[i % 4 + i / 4 * 8], b = v[i % 4 + i / 4 * 8 + 4];
    eight[i] = larger(_mm512_shuffle_f32x4(a, b, 0x44), _mm512_shuffle_f32x4(a, b, 0xEE));
  }
  for (unsigned i = 0; i < 4; ++i)
    four[i] = larger(_mm512_shuffle_f32x4(eight[i], eight[i + 4], 0x88),
                     _mm512_shuffle_f32x4(eight[i], eight[i + 4], 0xDD));
  const F low = larger(_mm512_unpacklo_ps(four[0], four[1]), _mm512_unpackhi_ps(four[0], four[1]));
  const F high = larger(_mm512_unpacklo_ps(four[2], four[3]), _mm512_unpackhi_ps(four[2], four[3]));
  const __m512d a = _mm512_castps_pd(low), b = _mm512_castps_pd(high);
  return larger(_mm512_castpd_ps(_mm512_unpacklo_pd(a, b)), _mm512_castpd_ps(_mm512_unpackhi_pd(a, b)));
}

// nvfp4_scale() of 16 scales: writes the bytes and returns the values. Adding and subtracting 2^20 times the
// scale's power of two rounds it to e4m3's mantissa. 2^-120 times the result has e4m3's bits at the top of
// its float, subnormal scales included.
OP F round_to_e4m3(F scale, std::uint8_t* bytes_out) {
  scale = _mm512_mask_mov_ps(scale, _mm512_cmp_ps_mask(scale, _mm512_setzero_ps(), _CMP_EQ_OQ), every(1.f));
  scale = smaller(larger(scale, every(0x1p-9f)), every(448.f));
  const V power = _mm512_max_epi32(_mm512_castps_si512(scale) & dwords(0x7F800000), dwords((127 - 6) << 23));
  const F large = _mm512_castsi512_ps(_mm512_add_epi32(power, dwords(20 << 23)));
  const F value = scale + large - large;
  const V code = _mm512_srli_epi32(_mm512_castps_si512(value * every(0x1p-120f)), 20);
  _mm_storeu_si128(reinterpret_cast<__m128i*>(bytes_out), _mm512_cvtepi32_epi8(code));
  return value;
}

// Whether a block needs the reference: one so small that 1e-30 matters beside amax / 6, zero excepted.
OP bool any_small(F amax) {
  const __mmask16 small = _mm512_cmp_ps_mask(amax, every(0x1p-60f), _CMP_LT_OQ);
  return _mm512_mask_cmp_ps_mask(small, amax, _mm512_setzero_ps(), _CMP_NEQ_OQ) != 0;
}
// Writes the e8m0 bytes of 2^x and returns them; 0 where amax is 0. The exponent x is rounded up where amax /
// 6 reaches sqrt(2) times a power of two (kSixRootTwo).
OP V exponent_bytes(F amax, std::uint8_t* bytes_out) {
  const __mmask16 some = _mm512_cmp_ps_mask(amax, _mm512_setzero_ps(), _CMP_NEQ_OQ);
  const V x = _mm512_srai_epi32(_mm512_sub_epi32(_mm512_castps_si512(amax), dwords(kSixRootTwo)), 23);
  const V byte = _mm512_maskz_add_epi32(some, x, dwords(128));
  _mm_storeu_si128(reinterpret_cast<__m128i*>(bytes_out), _mm512_cvtepi32_epi8(byte));
  return byte;
}
// The same, but returns 4 / 2^x; 0 where amax is 0.
OP F four_by_power(F amax, std::uint8_t* bytes_out) {
  const V byte = exponent_bytes(amax, bytes_out);
  return _mm512_castsi512_ps(_mm512_maskz_sllv_epi32(_mm512_test_epi32_mask(byte, byte),
                                                     _mm512_sub_epi32(dwords(256), byte), dwords(23)));
}

// Collects 64 values and writes them as 32 bytes of nibbles.
struct Fours {
  V y[4];

  OP void set(unsigned i, F z, __mmask16 negative) {
    const V below = _mm512_cvt_roundps_epi32(z, _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC);
    const V above = _mm512_cvt_roundps_epi32(z, _MM_FROUND_TO_POS_INF | _MM_FROUND_NO_EXC);
    const V sum = _mm512_add_epi32(below, above);
    y[i] = _mm512_mask_or_epi32(sum, negative, sum, dwords(64));
  }
  OP void put(const IndexTable& table, std::uint8_t* to) const {
    // Lane l now has four bytes of lane l of each of the four registers.
    const V packed = _mm512_packus_epi16(_mm512_packus_epi32(y[0], y[1]), _mm512_packus_epi32(y[2], y[3]));
    const V index = _mm512_permutexvar_epi8(packed, load(table.at));  // the sign is bit 6, which it ignores
    const V sign = _mm512_and_si512(_mm512_srli_epi16(packed, 3), bytes(8));
    const V pairs = _mm512_maddubs_epi16(_mm512_or_si512(index, sign), words(0x1001));
    // Pair p (0 .. 7) of register r is word 8 (p / 2) + 2 r + p % 2.
    const V in_order =
        _mm512_permutexvar_epi16(_mm512_set_epi16(31, 30, 23, 22, 15, 14, 7, 6, 29, 28, 21, 20, 13, 12, 5, 4,
                                                  27, 26, 19, 18, 11, 10, 3, 2, 25, 24, 17, 16, 9, 8, 1, 0),
                                 pairs);
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(to), _mm512_cvtepi16_epi8(in_order));
  }
};
