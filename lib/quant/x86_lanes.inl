// Part of avx2.cc and avx512.cc: operations on single 16-byte lanes.

#define OP [[gnu::always_inline]] inline

using Lane = __m128i;

template <typename... Byte>
OP Lane lane(Byte... each) {
  return _mm_setr_epi8(static_cast<char>(each)...);
}
OP Lane load16(const std::uint8_t* from) {
  return _mm_loadu_si128(reinterpret_cast<const Lane*>(from));
}
OP void store16(std::uint8_t* to, Lane v) {
  _mm_storeu_si128(reinterpret_cast<Lane*>(to), v);
}

constexpr bool kCanStream = true;
OP void stream16(std::uint8_t* to, Lane v) {
  _mm_stream_si128(reinterpret_cast<Lane*>(to), v);
}
// Orders the streamed stores before all later stores.
OP void end_stream() {
  _mm_sfence();
}

OP Lane max8(Lane a, Lane b) {
  return _mm_max_epu8(a, b);
}
OP bool has_255(Lane a) {
  return _mm_movemask_epi8(_mm_cmpeq_epi8(a, _mm_set1_epi8(-1))) != 0;
}
// For transpositions on single lanes; whole registers have their own.
OP Lane low8(Lane a, Lane b) {
  return _mm_unpacklo_epi8(a, b);
}
OP Lane high8(Lane a, Lane b) {
  return _mm_unpackhi_epi8(a, b);
}
