// Part of each file of vector kernels: what is done on single 16-byte lanes, whatever the width of the
// registers.

#define OP [[gnu::always_inline]] inline

OP __m128i load16(const std::uint8_t* from) {
  return _mm_loadu_si128(reinterpret_cast<const __m128i*>(from));
}
OP void store16(std::uint8_t* to, __m128i v) {
  _mm_storeu_si128(reinterpret_cast<__m128i*>(to), v);
}

// kStream: past the caches; `to` is aligned then.
template <bool kStream>
OP void put16(std::uint8_t* to, __m128i v) {
  if constexpr (kStream)
    _mm_stream_si128(reinterpret_cast<__m128i*>(to), v);
  else
    store16(to, v);
}

// For transpositions on single lanes; whole registers have their own.
OP __m128i low8(__m128i a, __m128i b) {
  return _mm_unpacklo_epi8(a, b);
}
OP __m128i high8(__m128i a, __m128i b) {
  return _mm_unpackhi_epi8(a, b);
}
