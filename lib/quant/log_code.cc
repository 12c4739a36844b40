#include "quant/log_code.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <iterator>

#include "format/number.h"

namespace planesmith {
namespace {

// The largest code whose magnitude is at most `value`: keeps exponent and three fraction bits of the double.
int code_floor(double value) {
  return static_cast<int>(std::bit_cast<std::int64_t>(value) >> 49) - 8 * 1023;
}

// |scale| = significand * 2^exponent, significand in [1, 2); for normal numbers.
struct Parts {
  double significand;
  int exponent;
};
Parts parts_of(double scale) {
  constexpr std::uint64_t fraction = (std::uint64_t{1} << 52) - 1, one = std::uint64_t{1023} << 52;
  const auto bits = std::bit_cast<std::uint64_t>(scale);
  return {std::bit_cast<double>((bits & fraction) | one), static_cast<int>(bits >> 52 & 2047) - 1023};
}

// An exponent is rounded up where amax / 6 is above sqrt(2) times a power of two.
constexpr double kRoundUp = 6 * 1.4142135623730951;

// For each threshold of the magnitude index: the largest code whose magnitude times `factor` does not exceed
// it.
struct Passes {
  int code[format::kThresholds];
  explicit Passes(double factor) {
    // The last three thresholds are earlier ones times a power of two, so four divisions suffice.
    using format::magnitude_threshold;
    static_assert(magnitude_threshold(4) == 2 * magnitude_threshold(2) &&
                  magnitude_threshold(5) == 2 * magnitude_threshold(3) &&
                  magnitude_threshold(6) == 4 * magnitude_threshold(2));
    const int one = code_floor(magnitude_threshold(0) / factor),
              three = code_floor(magnitude_threshold(1) / factor),
              five = code_floor(magnitude_threshold(2) / factor),
              seven = code_floor(magnitude_threshold(3) / factor);
    const int all[format::kThresholds] = {one, three, five, seven, five + 8, seven + 8, five + 16};
    std::copy(std::begin(all), std::end(all), code);
  }
  unsigned index_of(int e) const {
    unsigned index = 0;
    for (const int pass : code) index += e > pass;
    return index;
  }
};

}  // namespace

bool has_log_rule(double scale) {
  // With a scale of at least 2^-52 every nonzero product of e2m1, e4m3 and scale is at least 2^-62. Relative
  // to that, 1e-30 is less than the distance of an amax from a tie (2^-33.9).
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
  std::memset(rule.index, std::signbit(scale) ? 8 : 0, sizeof rule.index);
  for (const int code : passes.code) {
    const auto pass = static_cast<std::int8_t>(code - passes.code[0]);
    for (std::int8_t d = 0; d < 64; ++d)
      rule.index[d] = static_cast<std::uint8_t>(rule.index[d] + (d > pass));
  }
  return rule;
}

Nvfp4Rule nvfp4_rule(double scale_2) {
  const auto [significand, exponent] = parts_of(scale_2);
  // The e2m1 magnitudes m = 1..7 are 2^octave or 1.5 * 2^octave.
  constexpr int octave[8] = {0, -1, 0, 0, 1, 1, 2, 2};
  constexpr bool and_a_half[8] = {false, false, false, true, false, true, false, true};
  constexpr int lift = 39, octaves = (kCodeBias + 1 + lift) / 8;  // makes every add[] positive
  static_assert((kCodeBias + 1 + lift) % 8 == 0);
  const int round_up[2] = {code_floor(kRoundUp / significand), code_floor(kRoundUp / (1.5 * significand))};
  const Passes passes[2] = {Passes(significand), Passes(1.5 * significand)};
  // The highest code at which even m = 7 still has index 0 is level 0.
  const int first = passes[1].code[0] - 8 * octave[7];

  Nvfp4Rule rule{};
  rule.base = static_cast<std::uint8_t>(127 + 1 + exponent - octaves);
  rule.shift = static_cast<std::uint8_t>(kNvfp4Lift + kCodeBias - 8 * (octaves - 1) + first);
  for (unsigned m = 1; m < 8; ++m) {
    rule.add[m] = static_cast<std::uint8_t>(8 * octave[m] + lift - round_up[and_a_half[m]]);
    rule.minus[m] = static_cast<std::uint8_t>(8 * (octave[7] - octave[m]));
    rule.plus[m] = and_a_half[m] ? 64 : 0;
  }
  // Levels of elements that can occur stay below 63; 63 is the place of zero.
  rule.minus[0] = 255;
  rule.plus[0] = 63;
  for (unsigned level = 0; level < 63; ++level)
    for (const unsigned half : {0u, 1u})
      rule.index[64 * half + level] = static_cast<std::uint8_t>(
          0x11 * passes[half].index_of(first + 8 * octave[7] + static_cast<int>(level)));
  rule.index[63] = 0x11 * kZeroFlag;
  return rule;
}

void nvfp4_group_maps(const Nvfp4Rule& rule, std::uint8_t maps[256][8]) {
  for (unsigned level = 0; level < 256; ++level)
    for (unsigned m = 0; m < 8; ++m) {
      const unsigned place = level < rule.minus[m] ? 0 : level - rule.minus[m];
      maps[level][m] = rule.index[(rule.plus[m] | place) & 127];
    }
}

}  // namespace planesmith
