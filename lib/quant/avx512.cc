// The vector kernels on 64-byte registers. They need the byte permutes (VBMI) and bit counts that came with
// Ice Lake and Zen 4; the AVX-512 processors before those lower their clock for wide registers, and AVX2
// serves them well.
#if defined(__x86_64__)

#include <immintrin.h>

#include <cmath>
#include <cstring>

#include "format/number.h"
#include "format/planes.h"
#include "quant/kernels.h"
#include "quant/log_code.h"
#include "quant/reference.h"
#include "quant/target_region.h"

#if !defined(__clang__)
// GCC 12's own header makes its undefined registers in a way that it then warns about.
#pragma GCC diagnostic ignored "-Wuninitialized"
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#endif

PLANESMITH_TARGET_BEGIN("avx512f,avx512bw,avx512vl,avx512dq,avx512vbmi,avx512vpopcntdq,bmi,bmi2,lzcnt,popcnt")
namespace planesmith {
namespace {

#include "quant/vector_lanes.inl"

constexpr unsigned kV = 64;  // bytes of a register
using V = __m512i;

OP V load(const std::uint8_t* from) {
  return _mm512_loadu_si512(from);
}
OP void store(std::uint8_t* to, V v) {
  _mm512_storeu_si512(to, v);
}
OP void stream(std::uint8_t* to, V v) {
  _mm512_stream_si512(reinterpret_cast<V*>(to), v);
}

OP V bytes(unsigned x) {
  return _mm512_set1_epi8(static_cast<char>(x));
}
OP V words(unsigned x) {
  return _mm512_set1_epi16(static_cast<short>(x));
}
OP V dwords(unsigned x) {
  return _mm512_set1_epi32(static_cast<int>(x));
}
OP V qwords(unsigned x) {
  return _mm512_set1_epi64(x);
}
OP V every_lane(__m128i lane) {
  return _mm512_broadcast_i32x4(lane);
}

OP V add8(V a, V b) {
  return _mm512_add_epi8(a, b);
}
OP V saturating_sub8(V a, V b) {
  return _mm512_subs_epu8(a, b);
}
OP V max8(V a, V b) {
  return _mm512_max_epu8(a, b);
}
OP V min8(V a, V b) {
  return _mm512_min_epu8(a, b);
}
OP V if_zero8(V a, V then, V otherwise) {
  return _mm512_mask_mov_epi8(otherwise, _mm512_testn_epi8_mask(a, a), then);
}
OP V shuffle(V table, V index) {
  return _mm512_shuffle_epi8(table, index);
}
template <int n>
OP V shift_left16(V a) {
  return _mm512_slli_epi16(a, n);
}
template <int n>
OP V shift_right16(V a) {
  return _mm512_srli_epi16(a, n);
}
template <int n>
OP V shift_left32(V a) {
  return _mm512_slli_epi32(a, n);
}
template <int n>
OP V shift_right32(V a) {
  return _mm512_srli_epi32(a, n);
}
template <int n>
OP V shift_left64(V a) {
  return _mm512_slli_epi64(a, n);
}
template <int n>
OP V shift_right64(V a) {
  return _mm512_srli_epi64(a, n);
}
OP V shift_left_by32(V a, V counts) {
  return _mm512_sllv_epi32(a, counts);
}
OP V pairs8(V a, V weights) {
  return _mm512_maddubs_epi16(a, weights);
}
OP V pairs16(V a, V weights) {
  return _mm512_madd_epi16(a, weights);
}
OP V low8(V a, V b) {
  return _mm512_unpacklo_epi8(a, b);
}
OP V high8(V a, V b) {
  return _mm512_unpackhi_epi8(a, b);
}
OP V low16(V a, V b) {
  return _mm512_unpacklo_epi16(a, b);
}
OP V high16(V a, V b) {
  return _mm512_unpackhi_epi16(a, b);
}
OP V low32(V a, V b) {
  return _mm512_unpacklo_epi32(a, b);
}
OP V high32(V a, V b) {
  return _mm512_unpackhi_epi32(a, b);
}
OP V low64(V a, V b) {
  return _mm512_unpacklo_epi64(a, b);
}
OP V high64(V a, V b) {
  return _mm512_unpackhi_epi64(a, b);
}

// Where a mask bit is set, that of a, else that of b.
OP V bits_from(V mask, V a, V b) {
  return _mm512_ternarylogic_epi64(mask, a, b, 0xCA);
}
// Even elements of a, odd elements of b.
OP V odd8_from(V a, V b) {
  return _mm512_mask_mov_epi8(a, 0xAAAAAAAAAAAAAAAA, b);
}
OP V odd16_from(V a, V b) {
  return _mm512_mask_mov_epi16(a, 0xAAAAAAAA, b);
}
OP V odd32_from(V a, V b) {
  return _mm512_mask_mov_epi32(a, 0xAAAA, b);
}

// One bit for each byte: is it zero; its top bit.
OP std::uint64_t zero_bytes(V a) {
  return _mm512_testn_epi8_mask(a, a);
}
OP std::uint64_t top_bits(V a) {
  return _mm512_movepi8_mask(a);
}

// The bytes of words that are below 256: first those of a, then those of b.
OP V narrow(V a, V b) {
  return _mm512_permutexvar_epi64(_mm512_setr_epi64(0, 2, 4, 6, 1, 3, 5, 7), _mm512_packus_epi16(a, b));
}
// Packed nibbles of a tile's row, 32 bytes, out of words.
OP void store_narrow(std::uint8_t* to, const V words[1]) {
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(to), _mm512_cvtepi16_epi8(words[0]));
}

// The larger of each byte and its fellow 16 bytes away, in the same 32 bytes.
OP V max_of_lane_pairs(V a) {
  return max8(a, _mm512_shuffle_i64x2(a, a, 0xB1));
}
// Stores the 16 bytes that such a pair of lanes has in common, for each pair.
OP void store_lane_pairs(std::uint8_t* to, V a) {
  store16(to, _mm512_castsi512_si128(a));
  store16(to + 16, _mm512_extracti32x4_epi32(a, 2));
}

// Quintal records, one a lane, 8 bytes and then 2: the first 8 of those of a and b; the last 2 of each.
OP V record_heads(V a, V b) {
  return _mm512_permutex2var_epi64(a, _mm512_setr_epi64(0, 2, 4, 6, 8, 10, 12, 14), b);
}
OP void store_record_tails(std::uint8_t* to, V a, V b) {
  const V tails = _mm512_permutex2var_epi64(a, _mm512_setr_epi64(1, 3, 5, 7, 9, 11, 13, 15), b);
  store16(to, _mm512_cvtepi64_epi16(tails));
}

// Codes of e4m3 bytes (log_code.h). The permute ignores the sign bit.
OP V e4m3_codes(V e4m3) {
  const V below64 = load(kE4m3Codes.code), from64 = load(kE4m3Codes.code + 64);
  return _mm512_permutex2var_epi8(below64, e4m3, from64);
}

// A table of 64 bytes.
struct Table {
  V part;
  OP explicit Table(const std::uint8_t* from) : part(load(from)) {}
  OP V look_up(V index) const { return _mm512_permutexvar_epi8(index, part); }
};

// The maps of a row's groups: map[even[0]], map[odd[0]], map[even[16]], map[odd[16]], ...
OP V gather_maps(const std::uint8_t map[256][8], const std::uint8_t* even, const std::uint8_t* odd) {
  const __m256i low =
      _mm256_set_m128i(table_pair(map[even[16]], map[odd[16]]), table_pair(map[even[0]], map[odd[0]]));
  const __m256i high =
      _mm256_set_m128i(table_pair(map[even[48]], map[odd[48]]), table_pair(map[even[32]], map[odd[32]]));
  return _mm512_inserti64x4(_mm512_castsi256_si512(low), high, 1);
}

// Two rows of packed nibbles, `upper` and the one 8 rows below it, two tiles of 32 bytes each, to the 64
// bytes they fill in each tile's nibble plane: the 16 bytes of lane t are quads 0 .. 3 of the upper row, then
// of the lower.
OP void place_rows(const std::uint8_t* upper, const std::uint8_t* lower, V quads[2]) {
  // Quad t of the first 16 columns beside quad t of the next 16: [half][t] to [t][half].
  const V halves_together = every_lane(_mm_setr_epi8(0, 1, 8, 9, 2, 3, 10, 11, 4, 5, 12, 13, 6, 7, 14, 15));
  const V a = shuffle(load(upper), halves_together), b = shuffle(load(lower), halves_together);
  const V first = _mm512_setr_epi32(0, 4, 16, 20, 1, 5, 17, 21, 2, 6, 18, 22, 3, 7, 19, 23);
  quads[0] = _mm512_permutex2var_epi32(a, first, b);
  quads[1] = _mm512_permutex2var_epi32(a, _mm512_add_epi32(first, dwords(8)), b);
}

// Adds to each 64-bit element how many of the other's bits are set.
OP V add_bit_counts(V sums, V a) {
  return _mm512_add_epi64(sums, _mm512_popcnt_epi64(a));
}

#include "quant/vector_nibbles.inl"
#include "quant/vector_planes.inl"
#include "quant/vector_requantize.inl"

}  // namespace

const Kernels kAvx512Kernels = {"avx512",    vector_mxfp4,        vector_fp8,       vector_nvfp4, fp8_zeros,
                                nvfp4_zeros, vector_from_nibbles, vector_histogram, vector_remap};

}  // namespace planesmith
PLANESMITH_TARGET_END

#endif
