// The vector kernels on pairs of 16-byte registers, for every 64-bit Arm processor. A pair is as wide as a
// row of a tile's packed nibbles, and its lanes are in plane order. SVE would be no faster: its registers are
// 16 bytes on Grace and GB10, and its look-ups take two tables at most.
#if defined(__aarch64__)

#include <arm_neon.h>

#include <cmath>
#include <cstring>

#include "format/number.h"
#include "format/planes.h"
#include "quant/kernels.h"
#include "quant/log_code.h"
#include "quant/quantize_reference.h"
#include "quant/reference.h"

namespace planesmith {
namespace {

#define OP [[gnu::always_inline]] inline

using Lane = uint8x16_t;

template <typename... Byte>
OP Lane lane(Byte... each) {
  return Lane{static_cast<std::uint8_t>(each)...};
}
OP Lane load16(const std::uint8_t* from) {
  return vld1q_u8(from);
}
OP void store16(std::uint8_t* to, Lane v) {
  vst1q_u8(to, v);
}

// NEON has no intrinsic for stores that bypass the caches.
constexpr bool kCanStream = false;
OP void stream16(std::uint8_t* to, Lane v) {
  store16(to, v);
}
OP void end_stream() {}

OP Lane max8(Lane a, Lane b) {
  return vmaxq_u8(a, b);
}
OP bool has_255(Lane a) {
  return vmaxvq_u8(a) == 255;
}
OP Lane low8(Lane a, Lane b) {
  return vzip1q_u8(a, b);
}
OP Lane high8(Lane a, Lane b) {
  return vzip2q_u8(a, b);
}

constexpr unsigned kV = 32;  // bytes of a pair
struct V {
  Lane low, high;
};

OP V load(const std::uint8_t* from) {
  return {vld1q_u8(from), vld1q_u8(from + 16)};
}
OP void store(std::uint8_t* to, V v) {
  vst1q_u8(to, v.low);
  vst1q_u8(to + 16, v.high);
}
OP void stream(std::uint8_t* to, V v) {
  store(to, v);
}

OP V every_lane(Lane of_16) {
  return {of_16, of_16};
}
OP V bytes(unsigned x) {
  return every_lane(vdupq_n_u8(static_cast<std::uint8_t>(x)));
}
OP V words(unsigned x) {
  return every_lane(vreinterpretq_u8_u16(vdupq_n_u16(static_cast<std::uint16_t>(x))));
}
OP V dwords(unsigned x) {
  return every_lane(vreinterpretq_u8_u32(vdupq_n_u32(x)));
}

OP V operator&(V a, V b) {
  return {vandq_u8(a.low, b.low), vandq_u8(a.high, b.high)};
}
OP V operator|(V a, V b) {
  return {vorrq_u8(a.low, b.low), vorrq_u8(a.high, b.high)};
}
OP V operator^(V a, V b) {
  return {veorq_u8(a.low, b.low), veorq_u8(a.high, b.high)};
}

// Apply an operation to the elements, `bits` wide, of a and b (PAIR), or of a with constants (EACH).
// clang-format off
#define PAIR(bits, op, a, b)                                                                                \
  V{vreinterpretq_u8_u##bits(op(vreinterpretq_u##bits##_u8(a.low), vreinterpretq_u##bits##_u8(b.low))),    \
    vreinterpretq_u8_u##bits(op(vreinterpretq_u##bits##_u8(a.high), vreinterpretq_u##bits##_u8(b.high)))}
#define EACH(bits, op, a, ...)                                                                              \
  V{vreinterpretq_u8_u##bits(op(vreinterpretq_u##bits##_u8(a.low) __VA_OPT__(,) __VA_ARGS__)),              \
    vreinterpretq_u8_u##bits(op(vreinterpretq_u##bits##_u8(a.high) __VA_OPT__(,) __VA_ARGS__))}
// clang-format on

OP V add8(V a, V b) {
  return {vaddq_u8(a.low, b.low), vaddq_u8(a.high, b.high)};
}
OP V sub8(V a, V b) {
  return {vsubq_u8(a.low, b.low), vsubq_u8(a.high, b.high)};
}
OP V saturating_sub8(V a, V b) {
  return {vqsubq_u8(a.low, b.low), vqsubq_u8(a.high, b.high)};
}
OP V max8(V a, V b) {
  return {vmaxq_u8(a.low, b.low), vmaxq_u8(a.high, b.high)};
}

// Bits of a where the mask is set, of b elsewhere.
OP V bits_from(V mask, V a, V b) {
  return {vbslq_u8(mask.low, a.low, b.low), vbslq_u8(mask.high, a.high, b.high)};
}
// a ^ (b & mask).
OP V xor_bits(V a, V b, V mask) {
  return a ^ (b & mask);
}

// A boolean for each byte.
using Mask = V;
OP Mask is_zero8(V a) {
  return {vceqzq_u8(a.low), vceqzq_u8(a.high)};
}
OP V where8(Mask mask, V then, V otherwise) {
  return bits_from(mask, then, otherwise);
}
OP V add_where8(V a, Mask mask, V b) {
  return add8(a, mask & b);
}

OP Lane sums_of_8(Lane a) {
  return vreinterpretq_u8_u64(vpaddlq_u32(vpaddlq_u16(vpaddlq_u8(a))));
}
OP V sums_of_8(V a) {
  return {sums_of_8(a.low), sums_of_8(a.high)};
}
OP V add64(V a, V b) {
  return PAIR(64, vaddq_u64, a, b);
}
// An index of 16 or more gives 0.
OP V shuffle(V table, V index) {
  return {vqtbl1q_u8(table.low, index.low), vqtbl1q_u8(table.high, index.high)};
}
template <int n>
OP V shift_left16(V a) {
  return EACH(16, vshlq_n_u16, a, n);
}
template <int n>
OP V shift_right16(V a) {
  return EACH(16, vshrq_n_u16, a, n);
}
template <int n>
OP V shift_left32(V a) {
  return EACH(32, vshlq_n_u32, a, n);
}
template <int n>
OP V shift_right32(V a) {
  return EACH(32, vshrq_n_u32, a, n);
}
template <int n>
OP V shift_left64(V a) {
  return EACH(64, vshlq_n_u64, a, n);
}
template <int n>
OP V shift_right64(V a) {
  return EACH(64, vshrq_n_u64, a, n);
}
OP V low8(V a, V b) {
  return {low8(a.low, b.low), low8(a.high, b.high)};
}
OP V high8(V a, V b) {
  return {high8(a.low, b.low), high8(a.high, b.high)};
}
OP V low16(V a, V b) {
  return PAIR(16, vzip1q_u16, a, b);
}
OP V high16(V a, V b) {
  return PAIR(16, vzip2q_u16, a, b);
}
OP V low32(V a, V b) {
  return PAIR(32, vzip1q_u32, a, b);
}
OP V high32(V a, V b) {
  return PAIR(32, vzip2q_u32, a, b);
}
OP V low64(V a, V b) {
  return PAIR(64, vzip1q_u64, a, b);
}
OP V high64(V a, V b) {
  return PAIR(64, vzip2q_u64, a, b);
}

// Join each pair of elements (a, b) into one of twice the width: bytes to a + 25 b, words to a + 2^10 b,
// dwords (20 bits used) to a + 2^20 b.
OP uint16x8_t base25(uint16x8_t a) {  // a + 256 b - 231 b
  return vmlsq_n_u16(a, vshrq_n_u16(a, 8), 256 - 25);
}
OP uint32x4_t join10(uint32x4_t a) {
  return vsliq_n_u32(a, vshrq_n_u32(a, 16), 10);
}
OP uint64x2_t join20(uint64x2_t a) {
  return vsliq_n_u64(a, vshrq_n_u64(a, 32), 20);
}
OP V base25(V a) {
  return EACH(16, base25, a);
}
OP V join10(V a) {
  return EACH(32, join10, a);
}
OP V join20(V a) {
  return EACH(64, join20, a);
}

// Nibbles are looked up in a table of 16 bytes, repeated in each lane.
OP V low_nibbles(V packed) {
  return packed & bytes(15);
}
OP V high_nibbles(V packed) {
  return {vshrq_n_u8(packed.low, 4), vshrq_n_u8(packed.high, 4)};
}
OP V of_nibbles(V table, V nibbles) {
  return shuffle(table, nibbles);
}
// Packs the low nibbles of 32 bytes.
OP Lane joined(V a) {
  return vsliq_n_u8(vuzp1q_u8(a.low, a.high), vuzp2q_u8(a.low, a.high), 4);
}
OP V joined(V a, V b) {
  return {joined(a), joined(b)};
}

// Even elements of a; at odd elements the larger bytes of b and c.
OP V odd8_max(V a, V b, V c) {
  return bits_from(words(0xFF00), max8(b, c), a);
}
OP V odd16_max(V a, V b, V c) {
  return bits_from(dwords(0xFFFF0000), max8(b, c), a);
}
OP V odd32_max(V a, V b, V c) {
  return bits_from(every_lane(vreinterpretq_u8_u64(vdupq_n_u64(0xFFFFFFFF00000000))), max8(b, c), a);
}

OP bool is_zero(V a) {
  return vmaxvq_u32(vreinterpretq_u32_u8(a.low | a.high)) == 0;
}

// The maximum of each byte and the byte 16 positions away.
OP V max_of_lane_pairs(V a) {
  return every_lane(max8(a.low, a.high));
}
// Stores one lane of such a pair; both lanes are equal.
OP void store_lane_pairs(std::uint8_t* to, V a) {
  store16(to, a.low);
}

// Transposes lanes: lane j of v[i] goes to lane i of v[j].
OP void lanes_together(V v[2]) {
  const Lane a = v[0].high;
  v[0].high = v[1].low;
  v[1].low = a;
}

// Each lane holds one quintal record of 8 + 2 bytes. The first 8 bytes of the records of a and b.
OP Lane record_heads(V a) {
  return vreinterpretq_u8_u64(vzip1q_u64(vreinterpretq_u64_u8(a.low), vreinterpretq_u64_u8(a.high)));
}
OP V record_heads(V a, V b) {
  return {record_heads(a), record_heads(b)};
}
// The last 2 bytes of the records of 4 such pairs, in order. `tails` collects the high64() of each pair: the
// last pair in the low words, the first in the high words.
OP V record_tails(V tails) {
  const uint8x16x2_t table = {{tails.low, tails.high}};
  return {vqtbl2q_u8(table, lane(6, 7, 22, 23, 14, 15, 30, 31, 4, 5, 20, 21, 12, 13, 28, 29)),
          vqtbl2q_u8(table, lane(2, 3, 18, 19, 10, 11, 26, 27, 0, 1, 16, 17, 8, 9, 24, 25))};
}

// Codes of e4m3 bytes (log_code.h): an addition, and for subnormals a correction.
OP V e4m3_codes(V e4m3) {
  const V magnitude = e4m3 & bytes(0x7F);
  const V correction = shuffle(every_lane(load16(kE4m3Corrections.at)), add8(magnitude, bytes(8)));
  return add8(add8(magnitude, bytes(kNormalOffset)), correction);
}

// Bytes 0 .. 47 of a table.
struct Table {
  uint8x16x3_t part;
  OP explicit Table(const std::uint8_t* from) : part{{load16(from), load16(from + 16), load16(from + 32)}} {}
  OP V look_up(V index) const { return {vqtbl3q_u8(part, index.low), vqtbl3q_u8(part, index.high)}; }
};

// Transposes the levels of 16 rows from [group / 2][row], even and odd groups apart, to [row][group].
OP void store_by_row(std::uint8_t* to, V even, V odd) {
  vst4q_u8(to, uint8x16x4_t{{even.low, odd.low, even.high, odd.high}});
}

// For each group of a row: the results of the rule for m = 0 .. 7.
class GroupMaps {
 public:
  OP explicit GroupMaps(const Nvfp4Rule& rule) { nvfp4_group_maps(rule, map_); }
  OP V of_row(const std::uint8_t levels[4]) const {
    return {vcombine_u8(vld1_u8(map_[levels[0]]), vld1_u8(map_[levels[1]])),
            vcombine_u8(vld1_u8(map_[levels[2]]), vld1_u8(map_[levels[3]]))};
  }

 private:
  alignas(64) std::uint8_t map_[256][8];
};

// The working order is the plane order here (compare avx2.cc).
OP void swap_order(V[2]) {}

// Places two rows of packed nibbles, `upper` and the row 8 below it, into the 64 bytes that they fill in
// their tile's nibble plane: the 16 bytes of lane t are quads 0 .. 3 of the upper row, then of the lower.
OP void place_rows(V upper, V lower, V quads[2]) {
  // Quad q of lane t is word 4q + t: taking every other word twice sorts by t.
  const uint16x8_t u[2] = {vreinterpretq_u16_u8(upper.low), vreinterpretq_u16_u8(upper.high)},
                   l[2] = {vreinterpretq_u16_u8(lower.low), vreinterpretq_u16_u8(lower.high)};
  const uint16x8_t even_u = vuzp1q_u16(u[0], u[1]), odd_u = vuzp2q_u16(u[0], u[1]),
                   even_l = vuzp1q_u16(l[0], l[1]), odd_l = vuzp2q_u16(l[0], l[1]);
  quads[0] = {vreinterpretq_u8_u16(vuzp1q_u16(even_u, even_l)),
              vreinterpretq_u8_u16(vuzp1q_u16(odd_u, odd_l))};
  quads[1] = {vreinterpretq_u8_u16(vuzp2q_u16(even_u, even_l)),
              vreinterpretq_u8_u16(vuzp2q_u16(odd_u, odd_l))};
}

// The same for rows with one nibble in each byte, 32 columns in a pair.
OP void place_strips(const V upper[2], const V lower[2], V quads[2]) {
  place_rows(joined(upper[0], upper[1]), joined(lower[0], lower[1]), quads);
}

// Adds the number of set bits of each 64-bit element of a to that of sums.
OP V add_bit_counts(V sums, V a) {
  return add64(sums, sums_of_8(V{vcntq_u8(a.low), vcntq_u8(a.high)}));
}

// The order matters: each file uses the ones before it.
// clang-format off
#include "quant/vector_planes.inl"
#include "quant/vector_fp8.inl"
#include "quant/vector_nvfp4.inl"
#include "quant/vector_nibbles.inl"
#include "quant/floats_neon.inl"
#include "quant/vector_quantize.inl"
#include "quant/vector_to_fp4.inl"
#include "quant/vector_errors.inl"
// clang-format on

}  // namespace

const Kernels kNeonKernels = {"neon",          vector_mxfp4,         vector_fp8,
                              vector_nvfp4,    vector_from_nibbles,  vector_histogram,
                              vector_remap,    vector_max_magnitude, vector_to_nvfp4,
                              vector_to_mxfp4, vector_add_errors};

}  // namespace planesmith

#endif
