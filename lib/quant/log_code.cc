#include "quant/log_code.h"

#include <bit>
#include <cmath>

namespace planesmith {
namespace {

// The largest code whose magnitude is at most `value`: a double cut to three fraction bits.
int code_floor(double value) {
  return static_cast<int>(std::bit_cast<std::int64_t>(value) >> 49) - 8 * 1023;
}

// |scale| = significand * 2^exponent, significand in [1, 2).
struct Parts {
  double significand;
  int exponent;
};
Parts parts_of(double scale) {
  const int exponent = std::ilogb(scale);
  return {std::fabs(std::scalbn(scale, -exponent)), exponent};
}

constexpr double kThreshold[7] = {.25, .75, 1.25, 1.75, 2.5, 3.5, 5};

// An exponent is rounded up where amax / 6 is above sqrt(2) times a power of two.
constexpr double kRoundUp = 6 * 1.4142135623730951;

// The codes above which a magnitude times `factor` passes each threshold of the magnitude index.
struct Passes {
  int code[7];
  explicit Passes(double factor) {
    for (int i = 0; i < 7; ++i) code[i] = code_floor(kThreshold[i] / factor);
  }
  unsigned index_of(int e) const {
    unsigned index = 0;
    for (const int pass : code) index += e > pass;
    return index;
  }
};

}  // namespace

bool has_log_rule(double scale) {
  // From 2^-52 on, any nonzero product of e2m1, e4m3 and scale is at least 2^-62, against which 1e-30 is
  // smaller than the distance between an amax and a tie (2^-33.9, relative).
  const double magnitude = std::fabs(scale);
  return magnitude >= 0x1p-52 && magnitude <= 0x1p100;
}

Fp8Rule fp8_rule(double scale) {
  const auto [significand, exponent] = parts_of(scale);
  // amax = magnitude(code) * significand * 2^exponent, so x = 1 + exponent + floor((code - round_up - 1) /
  // 8).
  const int behind = kCodeBias + code_floor(kRoundUp / significand) + 1;
  const int offset = -behind & 7, octaves = (behind + offset) / 8;
  const Passes passes(significand);
  Fp8Rule rule;
  rule.offset = static_cast<std::uint8_t>(offset);
  rule.base = static_cast<std::uint8_t>(127 + 1 + exponent - octaves);
  rule.shift = static_cast<std::uint8_t>(passes.code[0] + kCodeBias - 8 * (octaves - 1));
  rule.sign = std::signbit(scale) ? 0x80 : 0;
  std::uint8_t from_first[7];
  for (int i = 0; i < 7; ++i) from_first[i] = static_cast<std::uint8_t>(passes.code[i] - passes.code[0]);
  for (unsigned d = 0; d < 64; ++d) {
    std::uint8_t index = 0;
    for (const std::uint8_t pass : from_first) index = static_cast<std::uint8_t>(index + (d > pass));
    rule.index[d] = index;
  }
  return rule;
}

void nvfp4_rule(double scale_2, Nvfp4Rule& rule) {
  const auto [significand, exponent] = parts_of(scale_2);
  // The e2m1 magnitudes m = 1..7 are 2^octave or 1.5 * 2^octave.
  constexpr int octave[8] = {0, -1, 0, 0, 1, 1, 2, 2};
  constexpr bool and_a_half[8] = {false, false, false, true, false, true, false, true};
  constexpr int lift = 39, octaves = (kCodeBias + 1 + lift) / 8;  // makes every add[] positive
  static_assert((kCodeBias + 1 + lift) % 8 == 0);
  const int round_up[2] = {code_floor(kRoundUp / significand), code_floor(kRoundUp / (1.5 * significand))};
  const Passes passes[2] = {Passes(significand), Passes(1.5 * significand)};
  // The highest code at which even m = 7 still has index 0 is row 1 of the map.
  const int first = passes[1].code[0] - 8 * octave[7];

  rule.base = static_cast<std::uint8_t>(127 + 1 + exponent - octaves);
  rule.shift = static_cast<std::uint8_t>(kNvfp4Lift + kCodeBias - 8 * (octaves - 1) + first - 1);
  for (unsigned m = 0; m < 16; ++m)
    rule.add[m] =
        m % 8 == 0 ? 0 : static_cast<std::uint8_t>(8 * octave[m % 8] + lift - round_up[and_a_half[m % 8]]);
  for (unsigned row = 0; row < 256; ++row)
    for (unsigned m = 0; m < 8; ++m) {
      const bool flips = (row >= 128) != std::signbit(scale_2), zero = row % 128 == 0 || m == 0;
      const int code = first - 1 + static_cast<int>(row % 128) + 8 * octave[m];
      rule.map[row][m] =
          static_cast<std::uint8_t>((zero ? 0x80 : passes[and_a_half[m]].index_of(code)) | (flips ? 8 : 0));
    }
}

}  // namespace planesmith
