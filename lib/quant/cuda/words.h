// Arithmetic on several small numbers packed into one 32-bit word: what a GPU lane does with its nibbles and
// bytes. Plain integer code that both compilers accept, so that the lane's results can be tested without a
// GPU.
#pragma once

#include <bit>
#include <cstdint>

#include "format/host_device.h"
#include "quant/quantize.h"

namespace planesmith::cuda {

// Eight nibbles, or four bytes, of a row in column order, lowest bits first.
using Word = std::uint32_t;

PLANESMITH_HD constexpr Word in_bytes(Word byte) {
  return byte * 0x01010101u;
}
PLANESMITH_HD constexpr Word in_nibbles(Word nibble) {
  return nibble * 0x11111111u;
}

// Byte i of the result is the byte of high:low that nibble i of `selectors` (0..7, 0 = lowest) names; what
// selectors holds beyond the fourth nibble is ignored.
PLANESMITH_HD inline Word pick_bytes(Word low, Word high, Word selectors) {
#if defined(__CUDA_ARCH__)
  Word result;  // __byte_perm would mask the selectors first
  asm("prmt.b32 %0, %1, %2, %3;" : "=r"(result) : "r"(low), "r"(high), "r"(selectors));
  return result;
#else
  const std::uint64_t bytes = std::uint64_t{high} << 32 | low;
  Word result = 0;
  for (unsigned i = 0; i < 4; ++i)
    result |= static_cast<Word>(bytes >> 8 * (selectors >> 4 * i & 7) & 255) << 8 * i;
  return result;
#endif
}

// The larger of each pair of 16-bit halves.
PLANESMITH_HD inline Word max_halves(Word a, Word b) {
#if defined(__CUDA_ARCH__)
  return __vmaxu2(a, b);
#else
  const Word low = (a & 0xFFFF) > (b & 0xFFFF) ? a : b, high = a > b ? a : b;
  return (high & 0xFFFF0000u) | (low & 0xFFFF);
#endif
}

PLANESMITH_HD inline unsigned count_bits(Word word) {
#if defined(__CUDA_ARCH__)
  return static_cast<unsigned>(__popc(word));
#else
  return static_cast<unsigned>(std::popcount(word));
#endif
}

// Position of the highest bit; the word is not 0.
PLANESMITH_HD inline unsigned highest_bit(Word word) {
#if defined(__CUDA_ARCH__)
  return 31 - static_cast<unsigned>(__clz(static_cast<int>(word)));
#else
  return 31 - static_cast<unsigned>(std::countl_zero(word));
#endif
}

// A 1 in every nibble whose magnitude index is 5 or more: codes +-4.
PLANESMITH_HD constexpr Word outer_nibbles(Word nibbles) {
  return (nibbles >> 2) & (nibbles >> 1 | nibbles) & in_nibbles(1);
}

// The 2-bit codes of sixteen nibbles (format::code_of).
PLANESMITH_HD inline Word codes_of(Word first, Word second) {
  const auto spread = [](Word w) {  // the codes of w in bits 0-7 and 16-23
    // Bit 1 of a code says "not negative", bit 0 "outer" where positive, "inner" where negative.
    Word codes = ((outer_nibbles(w) ^ w >> 3) & in_nibbles(1)) | (~(w >> 2) & in_nibbles(2));
    codes = (codes | codes >> 2) & in_bytes(0x0F);
    return codes | codes >> 4;
  };
  return pick_bytes(spread(first), spread(second), 0x6420);
}

// The two 10-bit quintal words of eight nibbles (format::quintal_digit), the first in bits 0-9. Each step
// joins two neighbours a + 2^n b into a + r b by taking (2^n - r) b away.
PLANESMITH_HD constexpr Word quintals_of(Word nibbles) {
  const Word digits = (nibbles & in_nibbles(7)) - 5 * outer_nibbles(nibbles);
  const Word pairs = digits - (16 - 5) * (digits >> 4 & in_bytes(0x0F));
  const Word quads = pairs - (256 - 25) * (pairs >> 8 & 0x00FF00FFu);
  return quads - (65536 - 1024) * (quads >> 16);
}

}  // namespace planesmith::cuda
