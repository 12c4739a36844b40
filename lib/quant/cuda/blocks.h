// One lane's work: 32 columns of a row, which share a scale, to nibbles and a scale byte. A lane sees its
// whole block, so nothing is exchanged before the nibbles are known. Compiles for the host too, so that it
// can be tested without a GPU.
#pragma once

#include <cstdint>
#include <cstring>

#include "format/host_device.h"
#include "format/number.h"
#include "quant/cuda/cuts.h"
#include "quant/cuda/words.h"

namespace planesmith::cuda {

struct Block {
  Word nibbles[4];  // 32 columns
  std::uint8_t scale;
};

// What a lane found out besides.
struct Tally {
  unsigned zeros = 0, negative = 0;  // exact zeros, those of them with the sign bit set
  bool bad = false;                  // a NaN or an infinity
};

// What to do with exact zeros. Uniform over a launch.
struct ZeroRule {
  bool count = false;
  bool alternate = false;  // sign bit = column & 1
};

PLANESMITH_HD inline Block mxfp4_block(const Word weights[4], std::uint8_t scale, Tally& tally) {
  tally.bad |= format::e8m0_is_nan(scale);
  return {{weights[0], weights[1], weights[2], weights[3]}, scale};
}

// A thermometer of threshold bits, any bit of the words, to the three bits of its height.
struct Height {
  Word ones, twos, fours;
};
PLANESMITH_HD constexpr Height height_of(const Word above[kThresholds]) {
  return {above[0] ^ above[1] ^ above[2] ^ above[3] ^ above[4] ^ above[5] ^ above[6],
          above[1] ^ above[3] ^ above[5], above[3]};
}

// --- FP8: 32 e4m3 bytes with one factor ---

// Everything that depends on the factor, ready to use.
struct Fp8Scale {
  Word above[kLevels];  // Cuts::above in each byte
  Word significand;
  Word magnitudes;  // 0x7F in each byte; 0 of a zero factor
  Word flip;        // 8 in each nibble of a negative factor
  std::int16_t exponent;
  std::uint8_t up;
  bool bad;  // a NaN or an infinity
};
PLANESMITH_HD inline Fp8Scale fp8_scale(const Factor& factor, bool finite) {
  const Cuts<kE4m3Steps> cuts = cuts_of<kE4m3Steps>(factor.significand);
  Fp8Scale scale{{},
                 factor.significand,
                 factor.zero ? 0 : in_bytes(0x7F),
                 factor.negative ? in_nibbles(8) : 0,
                 static_cast<std::int16_t>(factor.exponent),
                 static_cast<std::uint8_t>(cuts.up),
                 !finite};
  for (int i = 0; i < kLevels; ++i) scale.above[i] = in_bytes(static_cast<Word>(cuts.above[i]));
  return scale;
}

// The largest of 32 bytes.
PLANESMITH_HD inline unsigned largest_byte(const Word words[8]) {
  Word high = 0, low = 0;  // the largest high and low bytes of halves, each in the high byte of a half
  for (int k = 0; k < 8; ++k) {
    high = max_halves(high, words[k]);
    low = max_halves(low, words[k] << 8);
  }
  const Word both = max_halves(high, low);
  return max_halves(both, both << 16) >> 24;
}

// A word for each threshold: in each byte the smallest magnitude byte whose index is above i, at most 0x80.
PLANESMITH_HD inline void fp8_thresholds(const Fp8Scale& scale, int exponent, Word threshold[kThresholds]) {
  const int origin = block_origin<kE4m3Steps>(exponent, scale.exponent) - kE4m3Code;
  const auto byte = [&](int i) {
    return static_cast<int>(scale.above[threshold_level(i)] & 255) + threshold_offset<kE4m3Steps>(i) + origin;
  };
  if (byte(0) >= 8 && byte(kThresholds - 2) <= 0x80) {  // all but the last are bytes of normal numbers
    for (int i = 0; i < kThresholds - 1; ++i)
      threshold[i] = scale.above[threshold_level(i)] +
                     in_bytes(static_cast<Word>(threshold_offset<kE4m3Steps>(i) + origin));
    const int last = byte(kThresholds - 1);
    threshold[kThresholds - 1] = in_bytes(static_cast<Word>(last < 0x80 ? last : 0x80));
  } else {
    for (int i = 0; i < kThresholds; ++i) threshold[i] = in_bytes(e4m3_from_code(byte(i) + kE4m3Code));
  }
}

PLANESMITH_HD inline Block fp8_block(const Word weights[8], const Fp8Scale& scale, ZeroRule zeros,
                                     Tally& tally) {
  // Even and odd columns apart, so that their results meet in the two nibbles of a byte. Bit 7 of a magnitude
  // is set, so that thresholds can be subtracted from all bytes at once.
  Word bytes[8], magnitude[8];
  for (int k = 0; k < 8; ++k) {
    bytes[k] = pick_bytes(weights[k & 6], weights[k | 1], k % 2 == 0 ? 0x6420 : 0x7531);
    magnitude[k] = bytes[k] | in_bytes(0x80);
  }
  const unsigned largest = largest_byte(magnitude) & 0x7F;
  tally.bad |= largest == 0x7F || scale.bad;
  const int code = code_of_float<kE4m3Steps>(bits_of(e4m3_magnitude(largest & scale.magnitudes)));
  const int exponent =
      code == 0 ? -127 : block_exponent<kE4m3Steps>(code, scale.up, scale.exponent, scale.significand);
  Word threshold[kThresholds];
  fp8_thresholds(scale, exponent, threshold);
  if (code == 0)
    for (Word& t : threshold) t = in_bytes(0x80);  // a zero factor makes zeros of all magnitudes

  Block block;
  block.scale = static_cast<std::uint8_t>(exponent + 127);
  Word zero_bits = 0, negative_bits = 0;
  for (int k = 0; k < 4; ++k) {
    Height height[2];
    for (int odd = 0; odd < 2; ++odd) {
      Word above[kThresholds];  // in bit 7 of each byte
      for (int i = 0; i < kThresholds; ++i) above[i] = magnitude[2 * k + odd] - threshold[i];
      height[odd] = height_of(above);
    }
    const auto meet = [](Word even, Word odd) {  // bits 7 to bit 3 of the columns' nibbles
      return (even >> 4 & in_bytes(0x0F)) | (odd & in_bytes(0xF0));
    };
    Word sign = meet(bytes[2 * k], bytes[2 * k + 1]) ^ scale.flip;
    if (zeros.count || zeros.alternate) {
      const auto nonzero = [&](Word m) { return (m & scale.magnitudes) + in_bytes(0x7F); };
      const Word zero = ~meet(nonzero(magnitude[2 * k]), nonzero(magnitude[2 * k + 1])) & in_nibbles(8);
      zero_bits |= zero >> k;
      negative_bits |= (zero & sign) >> k;
      if (zeros.alternate) sign = (sign & ~zero) | (zero & in_bytes(0x80));
    }
    const Word ones = meet(height[0].ones, height[1].ones), twos = meet(height[0].twos, height[1].twos);
    const Word fours = meet(height[0].fours, height[1].fours);
    block.nibbles[k] = (ones >> 3 & in_nibbles(1)) | (twos >> 2 & in_nibbles(2)) |
                       (fours >> 1 & in_nibbles(4)) | (sign & in_nibbles(8));
  }
  tally.zeros += count_bits(zero_bits);
  tally.negative += count_bits(negative_bits);
  return block;
}

// The same in float64, as FORMAT.md writes it, with a factor for each element: for scale blocks of unusual
// shape. factor_at(column) gives the factor.
template <typename FactorAt>
PLANESMITH_HD inline Block fp8_any_block(const std::uint8_t weights[32], const FactorAt& factor_at,
                                         ZeroRule zeros, Tally& tally) {
  const auto value = [&](unsigned c) { return format::e4m3_value(weights[c]) * factor_at(c); };
  double amax = 0;
  for (unsigned c = 0; c < 32; ++c) {
    tally.bad |= format::e4m3_is_nan(weights[c]);
    const double w = value(c), magnitude = w < 0 ? -w : w;
    if (magnitude > amax) amax = magnitude;
  }
  const int exponent = format::scale_exponent(amax);
  const double inverse = format::power_of_two(-exponent);
  Block block{{0, 0, 0, 0}, static_cast<std::uint8_t>(exponent + 127)};
  for (unsigned c = 0; c < 32; ++c) {
    const double u = value(c) * inverse;
    std::uint64_t bits;
    std::memcpy(&bits, &u, sizeof bits);
    unsigned sign = static_cast<unsigned>(bits >> 63);
    if (u == 0) {
      ++tally.zeros;
      tally.negative += sign;
      if (zeros.alternate) sign = c & 1;
    }
    block.nibbles[c / 8] |= (format::magnitude_index(u < 0 ? -u : u) | sign << 3) << c % 8 * 4;
  }
  return block;
}

// --- NVFP4: two groups of 16 nibbles, an e4m3 scale each, and the tensor's own factor ---

// The new magnitude index of each old one in both nibbles of a byte: bytes 0-3 and 4-7.
struct IndexMap {
  Word low, high;
};
// How an old index maps depends on the group's scale relative to the block's exponent: an entry for each
// 8-step code over the octaves in which it changes.
inline constexpr int kMaps = 10 * kE4m3Steps, kFirstMap = -7 * kE4m3Steps;

struct Nvfp4Tensor {
  Factor factor;
  bool bad;  // a NaN or an infinity
  int up;    // Cuts::up
  IndexMap maps[kMaps];
};
inline Nvfp4Tensor nvfp4_tensor(Word scale_2_bits) {
  Nvfp4Tensor tensor{factor_of_f32(scale_2_bits), !f32_is_finite(scale_2_bits), 0, {}};
  const Cuts<kProductSteps> cuts = cuts_of<kProductSteps>(tensor.factor.significand);
  tensor.up = cuts.up;
  int threshold[kThresholds];
  for (int t = 0; t < kThresholds; ++t)
    threshold[t] = cuts.above[threshold_level(t)] + threshold_offset<kProductSteps>(t);
  for (unsigned old = 1; old < 8; ++old) {
    int index = 0;  // grows with the scale
    for (int i = 0; i < kMaps; ++i) {
      const float scale = float_of(static_cast<Word>(127 * kE4m3Steps + kFirstMap + i) << 20);
      const int code =
          code_of_float<kProductSteps>(bits_of(scale * e2m1_magnitude(old))) - 127 * kProductSteps;
      while (index < kThresholds && code >= threshold[index]) ++index;
      (old < 4 ? tensor.maps[i].low : tensor.maps[i].high) |= static_cast<Word>(index) * 0x11u << old % 4 * 8;
    }
  }
  return tensor;
}

// The highest magnitude index among sixteen nibbles without their signs.
PLANESMITH_HD inline unsigned highest_index(Word first, Word second) {
  const auto seen = [](Word indices) {  // in any byte: bit m is set where a nibble has magnitude index m
    return pick_bytes(0x08040201u, 0x80402010u, indices) |
           pick_bytes(0x08040201u, 0x80402010u, indices >> 16);
  };
  Word all = seen(first) | seen(second);
  all |= all >> 16;
  return highest_bit((all | all >> 8) & 255);
}

// scales: the two groups' bytes, the first in bits 0-7. maps: tensor.maps, wherever it is fast to read.
PLANESMITH_HD inline Block nvfp4_block(const Word weights[4], unsigned scales, const Factor& factor, int up,
                                       const IndexMap maps[kMaps], ZeroRule zeros, Tally& tally) {
  Word indices[4];
  for (int k = 0; k < 4; ++k) indices[k] = weights[k] & in_nibbles(7);
  float group_scale[2], largest = 0;
  for (int group = 0; group < 2; ++group) {
    const unsigned bits = scales >> 8 * group & 0x7F;
    tally.bad |= bits == 0x7F;
    group_scale[group] = factor.zero ? 0 : e4m3_magnitude(bits);
    const float product =
        group_scale[group] * e2m1_magnitude(highest_index(indices[2 * group], indices[2 * group + 1]));
    if (product > largest) largest = product;
  }
  const int code = code_of_float<kProductSteps>(bits_of(largest));
  const int exponent =
      code == 0 ? -127 : block_exponent<kProductSteps>(code, up, factor.exponent, factor.significand);
  const int origin = block_origin<kE4m3Steps>(exponent, factor.exponent) + kFirstMap;

  Block block;
  block.scale = static_cast<std::uint8_t>(exponent + 127);
  Word zero_bits = 0, negative_bits = 0;
  for (int group = 0; group < 2; ++group) {
    const int entry = code_of_float<kE4m3Steps>(bits_of(group_scale[group])) - origin;
    // Beyond the ends nothing changes: all indices become 0, or all but the zeros become 7.
    const bool empty = group_scale[group] == 0;
    const IndexMap map = maps[entry < 0 || empty ? 0 : entry < kMaps ? entry : kMaps - 1];
    const Word flip = (scales >> (8 * group + 7) & 1) != (factor.negative ? 1u : 0u) ? in_nibbles(8) : 0;
    for (int k = 2 * group; k < 2 * group + 2; ++k) {
      const Word first = pick_bytes(map.low, map.high, indices[k]);
      const Word second = pick_bytes(map.low, map.high, indices[k] >> 16);
      Word sign = weights[k] ^ flip;
      if (zeros.count || zeros.alternate) {
        const Word zero = empty ? in_nibbles(8) : ~(indices[k] + in_nibbles(7)) & in_nibbles(8);
        zero_bits |= zero >> k;
        negative_bits |= (zero & sign) >> k;
        if (zeros.alternate) sign = (sign & ~zero) | (zero & in_bytes(0x80));
      }
      const Word magnitudes = (pick_bytes(first, second, 0x6420) & in_bytes(0x0F)) |
                              (pick_bytes(first, second, 0x7531) & in_bytes(0xF0));
      block.nibbles[k] = magnitudes | (sign & in_nibbles(8));
    }
  }
  tally.zeros += count_bits(zero_bits);
  tally.negative += count_bits(negative_bits);
  return block;
}

}  // namespace planesmith::cuda
