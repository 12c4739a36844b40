// The vector kernels on 64-byte registers. They need the byte permutes (VBMI) and bit counts of Ice Lake and
// Zen 4. Earlier AVX-512 processors lower their clock for wide registers; they use AVX2.
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

#if !defined(__clang__)
// GCC 12 warns about the undefined registers in its own header.
#pragma GCC diagnostic ignored "-Wuninitialized"
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#endif

namespace planesmith {
namespace {

// Where the bytes of a permuted register come from.
struct Permutations {
  // Quad q (2 bytes) of lane position t and row u: from byte 16q + 8u + 2t to 16t + 8u + 2q.
  alignas(64) std::uint8_t quads_by_t[64];
  // Group g of row r: from byte 16 (g / 2) + r of the even or the odd groups to 8r + g.
  alignas(64) std::uint8_t levels_by_row[64];
  alignas(64) std::uint8_t byte_eight_times[64];  // byte i to bytes 8i .. 8i + 7
  // Pair p, lane l of a (of b): from word 3 - p of 64-bit element 2l (2l + 1).
  alignas(64) std::uint8_t record_tails[64];
};
constexpr Permutations make_permutations() {
  Permutations from{};
  for (unsigned i = 0; i < 64; ++i) {
    const unsigned t = i / 16, u = i / 8 % 2, q = i / 2 % 4, r = i / 8, g = i % 8;
    from.quads_by_t[i] = static_cast<std::uint8_t>(16 * q + 8 * u + 2 * t + i % 2);
    from.levels_by_row[i] = static_cast<std::uint8_t>(64 * (g % 2) + 16 * (g / 2) + r);
    from.byte_eight_times[i] = static_cast<std::uint8_t>(i / 8);
    const unsigned pair = i / 16, lane = i / 2 % 4, of_b = i / 8 % 2;
    from.record_tails[i] = static_cast<std::uint8_t>(8 * (2 * lane + of_b) + 2 * (3 - pair) + i % 2);
  }
  return from;
}
constexpr Permutations kPermutations = make_permutations();

}  // namespace
}  // namespace planesmith

PLANESMITH_TARGET_BEGIN(
    "f16c,avx512f,avx512bw,avx512vl,avx512dq,avx512vbmi,avx512vpopcntdq,bmi,bmi2,lzcnt,popcnt")
namespace planesmith {
namespace {

#include "quant/x86_lanes.inl"

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
OP V every_lane(Lane of_16) {
  return _mm512_broadcast_i32x4(of_16);
}

OP V add8(V a, V b) {
  return _mm512_add_epi8(a, b);
}
OP V sub8(V a, V b) {
  return _mm512_sub_epi8(a, b);
}
OP V saturating_sub8(V a, V b) {
  return _mm512_subs_epu8(a, b);
}
OP V max8(V a, V b) {
  return _mm512_max_epu8(a, b);
}

// A boolean for each byte.
using Mask = __mmask64;
OP Mask is_zero8(V a) {
  return _mm512_testn_epi8_mask(a, a);
}
OP V where8(Mask mask, V then, V otherwise) {
  return _mm512_mask_mov_epi8(otherwise, mask, then);
}
OP V add_where8(V a, Mask mask, V b) {
  return _mm512_mask_add_epi8(a, mask, a, b);
}

OP V sums_of_8(V a) {
  return _mm512_sad_epu8(a, _mm512_setzero_si512());
}
OP V add64(V a, V b) {
  return _mm512_add_epi64(a, b);
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
// Join each pair of elements (a, b) into one of twice the width: bytes to a + 25 b, words to a + 2^10 b,
// dwords (20 bits used) to a + 2^20 b.
OP V base25(V a) {
  return _mm512_maddubs_epi16(a, words(0x1901));
}
OP V join10(V a) {
  return _mm512_madd_epi16(a, dwords(0x04000001));
}
OP V join20(V a) {
  return _mm512_srli_epi64(_mm512_sllv_epi32(a, _mm512_set1_epi64(12)), 12);
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

// Nibbles are looked up in a table of 16 bytes, repeated in each lane. The permute reads 6 bits of an index,
// and the table is there four times, so the bits above a nibble need not be cleared.
OP V low_nibbles(V packed) {
  return packed;
}
OP V high_nibbles(V packed) {
  return shift_right16<4>(packed);
}
OP V of_nibbles(V table, V nibbles) {
  return _mm512_permutexvar_epi8(nibbles, table);
}

// Bits of a where the mask is set, of b elsewhere.
OP V bits_from(V mask, V a, V b) {
  return _mm512_ternarylogic_epi64(mask, a, b, 0xCA);
}
// a ^ (b & mask).
OP V xor_bits(V a, V b, V mask) {
  return _mm512_ternarylogic_epi64(a, b, mask, 0x78);
}
// Even elements of a; at odd elements the larger bytes of b and c.
OP V odd8_max(V a, V b, V c) {
  return _mm512_mask_max_epu8(a, 0xAAAAAAAAAAAAAAAA, b, c);
}
OP V odd16_max(V a, V b, V c) {
  return _mm512_mask_max_epu8(a, 0xCCCCCCCCCCCCCCCC, b, c);
}
OP V odd32_max(V a, V b, V c) {
  return _mm512_mask_max_epu8(a, 0xF0F0F0F0F0F0F0F0, b, c);
}

OP bool is_zero(V a) {
  return _mm512_test_epi64_mask(a, a) == 0;
}

// Packs the low nibbles of the bytes: in each lane first those of a, then those of b.
OP V joined_in_lanes(V a, V b) {
  const V join = words(0x1001);
  return _mm512_packus_epi16(_mm512_maddubs_epi16(a, join), _mm512_maddubs_epi16(b, join));
}
// The same for whole registers: first a, then b.
OP V joined(V a, V b) {
  return _mm512_permutexvar_epi64(_mm512_setr_epi64(0, 2, 4, 6, 1, 3, 5, 7), joined_in_lanes(a, b));
}
// The maximum of each byte and the byte 16 positions away in the same 32 bytes.
OP V max_of_lane_pairs(V a) {
  return max8(a, _mm512_shuffle_i64x2(a, a, 0xB1));
}
// Stores one 16-byte lane of each such pair; both lanes are equal.
OP void store_lane_pairs(std::uint8_t* to, V a) {
  store16(to, _mm512_castsi512_si128(a));
  store16(to + 16, _mm512_extracti32x4_epi32(a, 2));
}

// Transposes lanes: lane j of v[i] goes to lane i of v[j].
OP void lanes_together(V v[4]) {
  const V a = _mm512_shuffle_i64x2(v[0], v[1], 0x44), b = _mm512_shuffle_i64x2(v[2], v[3], 0x44);
  const V c = _mm512_shuffle_i64x2(v[0], v[1], 0xEE), d = _mm512_shuffle_i64x2(v[2], v[3], 0xEE);
  v[0] = _mm512_shuffle_i64x2(a, b, 0x88);
  v[1] = _mm512_shuffle_i64x2(a, b, 0xDD);
  v[2] = _mm512_shuffle_i64x2(c, d, 0x88);
  v[3] = _mm512_shuffle_i64x2(c, d, 0xDD);
}

// Each lane holds one quintal record of 8 + 2 bytes. The first 8 bytes of the records of a and b.
OP V record_heads(V a, V b) {
  return _mm512_permutex2var_epi64(a, _mm512_setr_epi64(0, 2, 4, 6, 8, 10, 12, 14), b);
}
// The last 2 bytes of the records of 4 such pairs, in order. `tails` collects the high64() of each pair: the
// last pair in the low words, the first in the high words.
OP V record_tails(V tails) {
  return _mm512_permutexvar_epi8(load(kPermutations.record_tails), tails);
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

// Transposes the levels of 16 rows from [group / 2][row], even and odd groups apart, to [row][group].
OP void store_by_row(std::uint8_t* to, V even, V odd) {
  const V rows0 = load(kPermutations.levels_by_row), rows8 = rows0 | bytes(8);
  store(to, _mm512_permutex2var_epi8(even, rows0, odd));
  store(to + kV, _mm512_permutex2var_epi8(even, rows8, odd));
}

// For each group of a row: the results of the rule for m = 0 .. 7.
class GroupMaps {
 public:
  OP explicit GroupMaps(const Nvfp4Rule& rule)
      : index_{load(rule.index), load(rule.index + kV)},
        minus_(every_qword(rule.minus)),
        plus_(every_qword(rule.plus)) {}
  OP V of_row(const std::uint8_t levels[8]) const {
    const V level = _mm512_permutexvar_epi8(load(kPermutations.byte_eight_times), every_qword(levels));
    return _mm512_permutex2var_epi8(index_[0], saturating_sub8(level, minus_) | plus_, index_[1]);
  }

 private:
  OP static V every_qword(const std::uint8_t* from) {
    return _mm512_broadcastq_epi64(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(from)));
  }
  V index_[2], minus_, plus_;
};

// The working order is the plane order here (compare avx2.cc).
OP void swap_order(V[2]) {}

// Places two rows of packed nibbles, `upper` and the row 8 below it, two tiles of 32 bytes each, into the 64
// bytes that they fill in each tile's nibble plane: the 16 bytes of lane t are quads 0 .. 3 of the upper row,
// then of the lower.
OP void place_rows(V upper, V lower, V quads[2]) {
  // Brings quad t of the first 16 columns beside quad t of the next 16: [half][t] to [t][half].
  const V halves_together = every_lane(lane(0, 1, 8, 9, 2, 3, 10, 11, 4, 5, 12, 13, 6, 7, 14, 15));
  const V a = shuffle(upper, halves_together), b = shuffle(lower, halves_together);
  const V first = _mm512_setr_epi32(0, 4, 16, 20, 1, 5, 17, 21, 2, 6, 18, 22, 3, 7, 19, 23);
  quads[0] = _mm512_permutex2var_epi32(a, first, b);
  quads[1] = _mm512_permutex2var_epi32(a, _mm512_add_epi32(first, dwords(8)), b);
}

// The same for two rows of one tile with one nibble in each byte.
OP void place_strips(const V upper[1], const V lower[1], V quads[1]) {
  // Lane q of the packed rows: quad q of t = 0 .. 3, of the upper row and of the lower.
  const V by_t = _mm512_permutexvar_epi8(load(kPermutations.quads_by_t), joined_in_lanes(upper[0], lower[0]));
  quads[0] = by_t;
}

// Adds the number of set bits of each 64-bit element of a to that of sums.
OP V add_bit_counts(V sums, V a) {
  return _mm512_add_epi64(sums, _mm512_popcnt_epi64(a));
}

// The order matters: each file uses the ones before it.
// clang-format off
#include "quant/vector_planes.inl"
#include "quant/vector_fp8.inl"
#include "quant/vector_nvfp4.inl"
#include "quant/vector_nibbles.inl"
#include "quant/floats_avx512.inl"
#include "quant/vector_quantize.inl"
#include "quant/bf16_avx512.inl"
#include "quant/bf16_x86.inl"
#include "quant/vector_to_fp4.inl"
#include "quant/vector_errors.inl"
// clang-format on

}  // namespace

const Kernels kAvx512Kernels = {"avx512",        vector_mxfp4,         vector_fp8,
                                vector_nvfp4,    vector_from_nibbles,  vector_histogram,
                                vector_remap,    vector_max_magnitude, vector_to_nvfp4,
                                vector_to_mxfp4, vector_add_errors};

}  // namespace planesmith
PLANESMITH_TARGET_END

#endif
