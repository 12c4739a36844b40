// Part of avx2.cc: 16 floats in two registers, for vector_quantize.inl.

struct F {
  __m256 low, high;
};

OP V larger16(V a, V b) {
  return _mm256_max_epu16(a, b);
}
OP V larger32(V a, V b) {
  return _mm256_max_epu32(a, b);
}

OP F operator/(F a, F b) {
  return {_mm256_div_ps(a.low, b.low), _mm256_div_ps(a.high, b.high)};
}
OP F operator*(F a, F b) {
  return {_mm256_mul_ps(a.low, b.low), _mm256_mul_ps(a.high, b.high)};
}

template <FloatType kType>
OP F load_floats(const std::uint8_t* from) {
  if constexpr (kType == FloatType::f32) {
    const float* at = reinterpret_cast<const float*>(from);
    return {_mm256_loadu_ps(at), _mm256_loadu_ps(at + 8)};
  }
  const __m128i low = load16(from), high = load16(from + 16);
  if constexpr (kType == FloatType::f16) return {_mm256_cvtph_ps(low), _mm256_cvtph_ps(high)};
  return {_mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(low), 16)),
          _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(high), 16))};
}
OP F get_floats(const float* from) {
  return {_mm256_load_ps(from), _mm256_load_ps(from + 8)};
}
OP void store_floats(float* to, F v) {
  _mm256_store_ps(to, v.low);
  _mm256_store_ps(to + 8, v.high);
}
OP F every(float x) {
  return {_mm256_set1_ps(x), _mm256_set1_ps(x)};
}
OP F magnitude(F v) {
  const __m256 mask = _mm256_castsi256_ps(_mm256_set1_epi32(0x7FFFFFFF));
  return {_mm256_and_ps(v.low, mask), _mm256_and_ps(v.high, mask)};
}
OP F larger(F a, F b) {
  return {_mm256_max_ps(a.low, b.low), _mm256_max_ps(a.high, b.high)};
}
OP F smaller(F a, F b) {
  return {_mm256_min_ps(a.low, b.low), _mm256_min_ps(a.high, b.high)};
}
// A sign for each element: all ones or all zeros.
struct Signs {
  __m256i low, high;
};
OP Signs below_zero(F v) {
  const __m256 zero = _mm256_setzero_ps();
  return {_mm256_castps_si256(_mm256_cmp_ps(v.low, zero, _CMP_LT_OQ)),
          _mm256_castps_si256(_mm256_cmp_ps(v.high, zero, _CMP_LT_OQ))};
}
OP Signs sign_bit(F v) {
  return {_mm256_srai_epi32(_mm256_castps_si256(v.low), 31),
          _mm256_srai_epi32(_mm256_castps_si256(v.high), 31)};
}

// Element i is the largest of v[i], for 8 registers.
OP __m256 largest_of_8(const F* v) {
  __m256 two[4];
  for (unsigned i = 0; i < 4; ++i) {
    const __m256 a = _mm256_max_ps(v[i].low, v[i].high), b = _mm256_max_ps(v[i + 4].low, v[i + 4].high);
    two[i] = _mm256_max_ps(_mm256_permute2f128_ps(a, b, 0x20), _mm256_permute2f128_ps(a, b, 0x31));
  }
  const __m256 low = _mm256_max_ps(_mm256_unpacklo_ps(two[0], two[1]), _mm256_unpackhi_ps(two[0], two[1]));
  const __m256 high = _mm256_max_ps(_mm256_unpacklo_ps(two[2], two[3]), _mm256_unpackhi_ps(two[2], two[3]));
  const __m256d a = _mm256_castps_pd(low), b = _mm256_castps_pd(high);
  return _mm256_max_ps(_mm256_castpd_ps(_mm256_unpacklo_pd(a, b)),
                       _mm256_castpd_ps(_mm256_unpackhi_pd(a, b)));
}
OP F largest_of_each(const F v[16]) {
  return {largest_of_8(v), largest_of_8(v + 8)};
}

// Stores 16 numbers below 256 as bytes.
OP void put_bytes(__m256i low, __m256i high, std::uint8_t* to) {
  const __m256i words8 = _mm256_permute4x64_epi64(_mm256_packus_epi32(low, high), 0xD8);
  store16(to, _mm_packus_epi16(_mm256_castsi256_si128(words8), _mm256_extracti128_si256(words8, 1)));
}

OP __m256 round_half_to_e4m3(__m256 scale, __m256i& code) {
  const __m256 one = _mm256_set1_ps(1.f);
  scale = _mm256_blendv_ps(scale, one, _mm256_cmp_ps(scale, _mm256_setzero_ps(), _CMP_EQ_OQ));
  scale = _mm256_min_ps(_mm256_max_ps(scale, _mm256_set1_ps(0x1p-9f)), _mm256_set1_ps(448.f));
  const __m256 subnormal = _mm256_cmp_ps(scale, _mm256_set1_ps(0x1p-6f), _CMP_LT_OQ);
  const __m256i bits = _mm256_castps_si256(scale);
  const __m256i units = _mm256_cvtps_epi32(_mm256_mul_ps(scale, _mm256_set1_ps(0x1p9f)));
  const __m256i odd = _mm256_and_si256(_mm256_srli_epi32(bits, 20), dwords(1));
  const __m256i rounded =
      _mm256_srli_epi32(_mm256_add_epi32(bits, _mm256_add_epi32(odd, dwords(0x7FFFF))), 20);
  code =
      _mm256_blendv_epi8(_mm256_sub_epi32(rounded, dwords(120 << 3)), units, _mm256_castps_si256(subnormal));
  return _mm256_blendv_ps(_mm256_castsi256_ps(_mm256_slli_epi32(rounded, 20)),
                          _mm256_mul_ps(_mm256_cvtepi32_ps(units), _mm256_set1_ps(0x1p-9f)), subnormal);
}
// nvfp4_scale() of 16 scales: writes the bytes and returns the values.
OP F round_to_e4m3(F scale, std::uint8_t* bytes_out) {
  __m256i low, high;
  const F values = {round_half_to_e4m3(scale.low, low), round_half_to_e4m3(scale.high, high)};
  put_bytes(low, high, bytes_out);
  return values;
}

OP bool any_small(F amax) {
  int small = 0;
  for (const __m256 half : {amax.low, amax.high})
    small |= _mm256_movemask_ps(_mm256_and_ps(_mm256_cmp_ps(half, _mm256_set1_ps(0x1p-60f), _CMP_LT_OQ),
                                              _mm256_cmp_ps(half, _mm256_setzero_ps(), _CMP_NEQ_OQ)));
  return small != 0;
}
OP __m256 four_by_power_half(__m256 amax, __m256i& byte) {
  const __m256i zero = _mm256_castps_si256(_mm256_cmp_ps(amax, _mm256_setzero_ps(), _CMP_EQ_OQ));
  const __m256i x = _mm256_add_epi32(
      _mm256_srai_epi32(_mm256_sub_epi32(_mm256_castps_si256(amax), dwords(kSixRootTwo)), 23), dwords(1));
  byte = _mm256_andnot_si256(zero, _mm256_add_epi32(x, dwords(127)));
  return _mm256_castsi256_ps(
      _mm256_andnot_si256(zero, _mm256_slli_epi32(_mm256_sub_epi32(dwords(129), x), 23)));
}
// As in floats_avx512.inl.
OP F four_by_power(F amax, std::uint8_t* bytes_out) {
  __m256i low, high;
  const F factors = {four_by_power_half(amax.low, low), four_by_power_half(amax.high, high)};
  put_bytes(low, high, bytes_out);
  return factors;
}

// Collects 64 values and writes them as 32 bytes of nibbles.
struct Fours {
  alignas(32) std::uint8_t y[64];

  OP static __m256i below_and_above(__m256 z, __m256i negative) {
    const __m256i sum =
        _mm256_add_epi32(_mm256_cvtps_epi32(_mm256_floor_ps(z)), _mm256_cvtps_epi32(_mm256_ceil_ps(z)));
    return _mm256_or_si256(sum, _mm256_and_si256(negative, dwords(64)));
  }
  OP void set(unsigned i, F z, Signs negative) {
    put_bytes(below_and_above(z.low, negative.low), below_and_above(z.high, negative.high), y + 16 * i);
  }
  OP void put(const IndexTable& table, std::uint8_t* to) const {
    for (unsigned half = 0; half < 2; ++half) {
      const V packed = load(y + 32 * half), place = packed & bytes(63);
      // The shuffle looks up 16 of 48 entries at a time; an index of 128 or more gives 0.
      V index = bytes(0);
      for (unsigned third = 0; third < 3; ++third) {
        const V from_here = _mm256_sub_epi8(place, bytes(16 * third));
        const V outside = _mm256_cmpgt_epi8(from_here, bytes(15));
        index |= _mm256_shuffle_epi8(every_lane(load16(table.at + 16 * third)), from_here | outside);
      }
      const V nibble = index | (_mm256_srli_epi16(packed, 3) & bytes(8));
      const V pairs = _mm256_maddubs_epi16(nibble, words(0x1001));
      const V joined = _mm256_permute4x64_epi64(_mm256_packus_epi16(pairs, pairs), 0xD8);
      store16(to + 16 * half, _mm256_castsi256_si128(joined));
    }
  }
};
