// The vector kernels on 32-byte registers: any x86 processor since 2015.
#if defined(__x86_64__)

#include <immintrin.h>

#include <cmath>
#include <cstring>

#include "format/number.h"
#include "format/planes.h"
#include "quant/bf16_cutoffs.h"
#include "quant/kernels.h"
#include "quant/log_code.h"
#include "quant/quantize_reference.h"
#include "quant/reference.h"
#include "quant/target_region.h"

PLANESMITH_TARGET_BEGIN("avx2,f16c,bmi,bmi2,lzcnt,popcnt")
namespace planesmith {
namespace {

#include "quant/x86_lanes.inl"

constexpr unsigned kV = 32;  // bytes of a register
using V = __m256i;

OP V load(const std::uint8_t* from) {
  return _mm256_loadu_si256(reinterpret_cast<const V*>(from));
}
OP void store(std::uint8_t* to, V v) {
  _mm256_storeu_si256(reinterpret_cast<V*>(to), v);
}
OP void stream(std::uint8_t* to, V v) {
  _mm256_stream_si256(reinterpret_cast<V*>(to), v);
}

OP V bytes(unsigned x) {
  return _mm256_set1_epi8(static_cast<char>(x));
}
OP V words(unsigned x) {
  return _mm256_set1_epi16(static_cast<short>(x));
}
OP V dwords(unsigned x) {
  return _mm256_set1_epi32(static_cast<int>(x));
}
OP V every_lane(Lane of_16) {
  return _mm256_broadcastsi128_si256(of_16);
}

OP V add8(V a, V b) {
  return _mm256_add_epi8(a, b);
}
OP V sub8(V a, V b) {
  return _mm256_sub_epi8(a, b);
}
OP V saturating_sub8(V a, V b) {
  return _mm256_subs_epu8(a, b);
}
OP V max8(V a, V b) {
  return _mm256_max_epu8(a, b);
}

// A boolean for each byte.
using Mask = V;
OP Mask is_zero8(V a) {
  return _mm256_cmpeq_epi8(a, _mm256_setzero_si256());
}
OP V where8(Mask mask, V then, V otherwise) {
  return _mm256_blendv_epi8(otherwise, then, mask);
}
OP V add_where8(V a, Mask mask, V b) {
  return _mm256_add_epi8(a, mask & b);
}

OP V sums_of_8(V a) {
  return _mm256_sad_epu8(a, _mm256_setzero_si256());
}
OP V add64(V a, V b) {
  return _mm256_add_epi64(a, b);
}
OP V shuffle(V table, V index) {
  return _mm256_shuffle_epi8(table, index);
}
template <int n>
OP V shift_left16(V a) {
  return _mm256_slli_epi16(a, n);
}
template <int n>
OP V shift_right16(V a) {
  return _mm256_srli_epi16(a, n);
}
template <int n>
OP V shift_left32(V a) {
  return _mm256_slli_epi32(a, n);
}
template <int n>
OP V shift_right32(V a) {
  return _mm256_srli_epi32(a, n);
}
template <int n>
OP V shift_left64(V a) {
  return _mm256_slli_epi64(a, n);
}
template <int n>
OP V shift_right64(V a) {
  return _mm256_srli_epi64(a, n);
}
// Join each pair of elements (a, b) into one of twice the width: bytes to a + 25 b, words to a + 2^10 b,
// dwords (20 bits used) to a + 2^20 b.
OP V base25(V a) {
  return _mm256_maddubs_epi16(a, words(0x1901));
}
OP V join10(V a) {
  return _mm256_madd_epi16(a, dwords(0x04000001));
}
OP V join20(V a) {
  return _mm256_srli_epi64(_mm256_sllv_epi32(a, _mm256_set1_epi64x(12)), 12);
}
OP V low8(V a, V b) {
  return _mm256_unpacklo_epi8(a, b);
}
OP V high8(V a, V b) {
  return _mm256_unpackhi_epi8(a, b);
}
OP V low16(V a, V b) {
  return _mm256_unpacklo_epi16(a, b);
}
OP V high16(V a, V b) {
  return _mm256_unpackhi_epi16(a, b);
}
OP V low32(V a, V b) {
  return _mm256_unpacklo_epi32(a, b);
}
OP V high32(V a, V b) {
  return _mm256_unpackhi_epi32(a, b);
}
OP V low64(V a, V b) {
  return _mm256_unpacklo_epi64(a, b);
}
OP V high64(V a, V b) {
  return _mm256_unpackhi_epi64(a, b);
}

// Nibbles are looked up in a table of 16 bytes, repeated in each lane.
OP V low_nibbles(V packed) {
  return packed & bytes(15);
}
OP V high_nibbles(V packed) {
  return shift_right16<4>(packed) & bytes(15);
}
OP V of_nibbles(V table, V nibbles) {
  return shuffle(table, nibbles);
}

// Bits of a where the mask is set, of b elsewhere.
OP V bits_from(V mask, V a, V b) {
  return (a & mask) | _mm256_andnot_si256(mask, b);
}
// a ^ (b & mask).
OP V xor_bits(V a, V b, V mask) {
  return a ^ (b & mask);
}
// Even elements of a; at odd elements the larger bytes of b and c.
OP V odd8_max(V a, V b, V c) {
  return _mm256_blendv_epi8(a, max8(b, c), words(0xFF00));
}
OP V odd16_max(V a, V b, V c) {
  return _mm256_blend_epi16(a, max8(b, c), 0xAA);
}
OP V odd32_max(V a, V b, V c) {
  return _mm256_blend_epi32(a, max8(b, c), 0xAA);
}

OP bool is_zero(V a) {
  return _mm256_testz_si256(a, a);
}

// Packs the low nibbles of the bytes of a, then of b.
OP V joined(V a, V b) {
  const V join = words(0x1001);
  return _mm256_packus_epi16(_mm256_maddubs_epi16(a, join), _mm256_maddubs_epi16(b, join));
}

// The maximum of each byte and the byte 16 positions away in the same 32 bytes.
OP V max_of_lane_pairs(V a) {
  return max8(a, _mm256_permute4x64_epi64(a, 0x4E));
}
// Stores one 16-byte lane of each such pair; both lanes are equal.
OP void store_lane_pairs(std::uint8_t* to, V a) {
  store16(to, _mm256_castsi256_si128(a));
}

// Transposes lanes: lane j of v[i] goes to lane i of v[j].
OP void lanes_together(V v[2]) {
  const V a = v[0];
  v[0] = _mm256_permute2x128_si256(a, v[1], 0x20);
  v[1] = _mm256_permute2x128_si256(a, v[1], 0x31);
}

// Each lane holds one quintal record of 8 + 2 bytes. The first 8 bytes of the records of a and b.
OP V record_heads(V a, V b) {
  return low64(a, b);
}
// The last 2 bytes of the records of 4 such pairs, in order. `tails` collects the high64() of each pair: the
// last pair in the low words, the first in the high words.
OP V record_tails(V tails) {
  const V by_pair = shuffle(tails, every_lane(lane(6, 7, 14, 15, 4, 5, 12, 13, 2, 3, 10, 11, 0, 1, 8, 9)));
  return _mm256_permutevar8x32_epi32(by_pair, _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7));
}

// Codes of e4m3 bytes (log_code.h): an addition, and for subnormals a correction.
OP V e4m3_codes(V e4m3) {
  const V magnitude = e4m3 & bytes(0x7F);
  // For magnitudes of 8 and more the addition sets the top bit, so that the shuffle gives 0.
  const V correction = shuffle(every_lane(load16(kE4m3Corrections.at)), add8(magnitude, bytes(0x78)));
  return add8(add8(magnitude, bytes(kNormalOffset)), correction);
}

// Bytes 0 .. 47 of a table.
struct Table {
  V part[3];
  OP explicit Table(const std::uint8_t* from) {
    for (int i = 0; i < 3; ++i)
      part[i] = every_lane(_mm_load_si128(reinterpret_cast<const __m128i*>(from) + i));
  }
  OP V look_up(V index) const {  // each below 48
    const V low =
        _mm256_blendv_epi8(shuffle(part[0], index), shuffle(part[1], index), shift_left16<3>(index));
    return _mm256_blendv_epi8(low, shuffle(part[2], index), shift_left16<2>(index));
  }
};

// Transposes the levels of 16 rows from [group / 2][row], even and odd groups apart, to [row][group].
OP void store_by_row(std::uint8_t* to, V even, V odd) {
  const V rows0 = low8(even, odd), rows8 = high8(even, odd);  // [group / 2][row][even or odd]
  const V low = _mm256_permute2x128_si256(rows0, rows8, 0x20),
          high = _mm256_permute2x128_si256(rows0, rows8, 0x31);
  const V rows_0_8 = low16(low, high), rows_4_12 = high16(low, high);
  store16(to, _mm256_castsi256_si128(rows_0_8));
  store16(to + 16, _mm256_castsi256_si128(rows_4_12));
  store16(to + 32, _mm256_extracti128_si256(rows_0_8, 1));
  store16(to + 48, _mm256_extracti128_si256(rows_4_12, 1));
}

// For each group of a row: the results of the rule for m = 0 .. 7.
class GroupMaps {
 public:
  OP explicit GroupMaps(const Nvfp4Rule& rule) { nvfp4_group_maps(rule, map_); }
  OP V of_row(const std::uint8_t levels[4]) const {
    const V first = _mm256_blend_epi32(at(levels[0]), at(levels[1]), 0x0C);
    const V last = _mm256_blend_epi32(at(levels[2]), at(levels[3]), 0xC0);
    return _mm256_blend_epi32(first, last, 0xF0);
  }

 private:
  OP V at(unsigned level) const {
    return _mm256_broadcastq_epi64(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(map_[level])));
  }
  alignas(64) std::uint8_t map_[256][8];
};

// The lanes of a register pair are in plane order (0 1, 2 3) or in working order (0 2, 1 3), which
// instructions that pack both registers lane by lane restore to plane order. This converts either to the
// other.
OP void swap_order(V pair[2]) {
  lanes_together(pair);
}

// Reorders the quads (four columns) of a row from (t = 0, 1; 2, 3) (quad 0 .. 3) to (t) (quad).
OP V quads_by_t(V twos) {
  return shuffle(twos, every_lane(lane(0, 1, 4, 5, 8, 9, 12, 13, 2, 3, 6, 7, 10, 11, 14, 15)));
}

// Merges two rows, whose quads `by_twos` brings into that order, to 16 bytes for each t: quads 0 .. 3 of the
// upper row, then of the lower.
OP void place_twos(V upper, V lower, V by_twos, V quads[2]) {
  const V u = quads_by_t(_mm256_permutevar8x32_epi32(upper, by_twos)),
          l = quads_by_t(_mm256_permutevar8x32_epi32(lower, by_twos));
  quads[0] = low64(u, l);
  quads[1] = high64(u, l);
}

// Places two rows of packed nibbles, `upper` and the row 8 below it, into the 64 bytes that they fill in
// their tile's nibble plane: the 16 bytes of lane t are quads 0 .. 3 of the upper row, then of the lower.
OP void place_rows(V upper, V lower, V quads[2]) {
  place_twos(upper, lower, _mm256_setr_epi32(0, 2, 4, 6, 1, 3, 5, 7), quads);
}

// The same for rows with one nibble in each byte, 32 columns in a register.
OP void place_strips(const V upper[2], const V lower[2], V quads[2]) {
  place_twos(joined(upper[0], upper[1]), joined(lower[0], lower[1]),
             _mm256_setr_epi32(0, 4, 2, 6, 1, 5, 3, 7), quads);
}

// Adds the number of set bits of each 64-bit element of a to that of sums.
OP V add_bit_counts(V sums, V a) {
  const V count = every_lane(lane(0, 1, 1, 2, 1, 2, 2, 3, 1, 2, 2, 3, 2, 3, 3, 4));
  const V in_bytes = add8(shuffle(count, a & bytes(15)), shuffle(count, shift_right16<4>(a) & bytes(15)));
  return _mm256_add_epi64(sums, _mm256_sad_epu8(in_bytes, _mm256_setzero_si256()));
}

// The order matters: each file uses the ones before it.
// clang-format off
#include "quant/vector_planes.inl"
#include "quant/vector_fp8.inl"
#include "quant/vector_nvfp4.inl"
#include "quant/vector_nibbles.inl"
#include "quant/floats_avx2.inl"
#include "quant/vector_quantize.inl"
#include "quant/bf16_avx2.inl"
#include "quant/bf16_x86.inl"
#include "quant/vector_to_fp4.inl"
#include "quant/vector_errors.inl"
// clang-format on

}  // namespace

const Kernels kAvx2Kernels = {"avx2",          vector_mxfp4,         vector_fp8,
                              vector_nvfp4,    vector_from_nibbles,  vector_histogram,
                              vector_remap,    vector_max_magnitude, vector_to_nvfp4,
                              vector_to_mxfp4, vector_add_errors};

}  // namespace planesmith
PLANESMITH_TARGET_END

#endif
