// Float weights to FP4: the reference against the definition and by hand, every instruction set against the
// reference, with the values that are hard: ties, zeros of both signs, subnormals, the ends of the range.
#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <string>
#include <vector>

#include "format/number.h"
#include "quant/bf16_cutoffs.h"
#include "quant/kernels.h"
#include "unit/kernel_inputs.h"

using namespace planesmith;
using planesmith::testing::Draw;
using planesmith::testing::draw_values;
using planesmith::testing::kTypes;
using planesmith::testing::random_bytes;

namespace {

struct Quantized {
  std::vector<std::uint8_t> nibbles, scales;
  bool operator==(const Quantized&) const = default;
};
Quantized nvfp4(const Kernels& kernels, const FloatValues& values, float scale_2) {
  Quantized out{std::vector<std::uint8_t>(values.count / 2), std::vector<std::uint8_t>(values.count / 16)};
  kernels.to_nvfp4(values, scale_2, out.nibbles.data(), out.scales.data());
  return out;
}
Quantized mxfp4(const Kernels& kernels, const FloatValues& values) {
  Quantized out{std::vector<std::uint8_t>(values.count / 2), std::vector<std::uint8_t>(values.count / 32)};
  kernels.to_mxfp4(values, out.nibbles.data(), out.scales.data());
  return out;
}

// The bytes of all sums, of the values and once more of a part of them.
std::string errors(const Kernels& kernels, const FloatValues& values, float scale_2) {
  std::vector<std::uint8_t> nibbles(values.count / 2), scales(values.count / kNvfp4Group);
  kScalarKernels.to_nvfp4(values, scale_2, nibbles.data(), scales.data());
  FloatErrors found;
  kernels.add_errors(values, nibbles.data(), scales.data(), scale_2, found);
  kernels.add_errors(values.part(0, kMxfp4Group), nibbles.data(), scales.data(), scale_2, found);
  return {reinterpret_cast<const char*>(&found), sizeof found};
}

}  // namespace

TEST_CASE("an NVFP4 scale is the nearest e4m3, ties to even, within 2^-9 and 448") {
  CHECK(nvfp4_scale(0) == 0x38);  // 0 becomes 1
  CHECK(nvfp4_scale(1) == 0x38);
  CHECK(nvfp4_scale(1e-9f) == 1);
  CHECK(nvfp4_scale(449) == 0x7E);
  CHECK(nvfp4_scale(1e30f) == 0x7E);
  CHECK(nvfp4_scale(17) == 0x58);      // between 16 and 18, 16 is even
  CHECK(nvfp4_scale(19) == 0x5A);      // between 18 and 20, 20 is even
  CHECK(nvfp4_scale(0x1.8p-9f) == 2);  // between 1 and 2 of 2^-9
  CHECK(nvfp4_scale(0x1.4p-8f) == 2);  // between 2 and 3
  CHECK(nvfp4_scale(0x1.Fp-7f) == 8);  // rounds up to the first normal number
  CHECK(nvfp4_scale(0x1p-6f) == 8);
  for (unsigned code = 1; code < 0x7F; ++code)
    CHECK(nvfp4_scale(static_cast<float>(format::e4m3_value(static_cast<std::uint8_t>(code)))) == code);
}

TEST_CASE("an NVFP4 code is the nearest e2m1, ties to even, the sign that of the quotient") {
  const float value[] = {0, .25f, .26f, .5f,  .75f, 1, 1.25f, 1.5f, 1.75f,
                         2, 2.5f, 3,    3.5f, 4,    5, 5.1f,  6,    99};
  const unsigned index[] = {0, 0, 1, 1, 2, 2, 2, 3, 4, 4, 4, 5, 6, 6, 6, 7, 7, 7};
  for (unsigned i = 0; i < std::size(value); ++i) {
    CHECK(nvfp4_nibble(value[i] * .125f, .125f) == index[i]);
    CHECK(nvfp4_nibble(-value[i], 1) == (index[i] | (i == 0 ? 0u : 8u)));
  }
}

TEST_CASE("an expert of zeros gets finite scales") {
  const std::vector<std::uint8_t> zeros(64);
  CHECK(nvfp4_scale_2(0) == 1);
  for (const Kernels* kernels : available_kernels()) {
    const Quantized result = nvfp4(*kernels, {zeros.data(), FloatType::bf16, 32}, nvfp4_scale_2(0));
    CHECK(result.nibbles == std::vector<std::uint8_t>(16));
    CHECK(result.scales == std::vector<std::uint8_t>(2, 0x38));
  }
}

TEST_CASE("every instruction set gives the reference's bytes") {
  for (const FloatType type : kTypes)
    for (unsigned seed = 0; seed < 60; ++seed) {
      CAPTURE(static_cast<int>(type));
      CAPTURE(seed);
      const Draw draw = random_bytes(1000 + seed);
      const std::uint64_t count = 32 * (1 + (draw() | draw() << 8u) % 70u);
      const std::vector<std::uint8_t> bytes = draw_values(draw, type, count, seed % 4 == 0);
      const FloatValues values{bytes.data(), type, count};
      const float amax = kScalarKernels.max_magnitude(values);
      CHECK(std::isfinite(amax));
      const float scale_2[] = {nvfp4_scale_2(amax), nvfp4_scale_2(amax) * 3.7f, 1e-9f, 0x1p-140f};
      for (const Kernels* kernels : available_kernels()) {
        CAPTURE(kernels->name);
        CHECK(kernels->max_magnitude(values) == amax);
        for (const float s : scale_2) {
          CHECK((nvfp4(*kernels, values, s) == nvfp4(kScalarKernels, values, s)));
          CHECK(errors(*kernels, values, s) == errors(kScalarKernels, values, s));
        }
        CHECK((mxfp4(*kernels, values) == mxfp4(kScalarKernels, values)));
      }
    }
}

TEST_CASE("codes of quotients on and beside every threshold") {
  // Weights whose quotient by the block's scale is a threshold, a float below it and one above it.
  std::vector<float> weights;
  for (const float threshold : {.25f, .75f, 1.25f, 1.75f, 2.5f, 3.5f, 5.f, 6.f})
    for (const float scale : {1.f, 0x1p-4f})
      for (const float sign : {1.f, -1.f})
        for (const float w : {std::nextafter(threshold * scale, 0.f), threshold * scale,
                              std::nextafter(threshold * scale, 9.f)})
          weights.insert(weights.end(), {sign * w, 6.f * scale, 0.f, -0.f});
  weights.resize((weights.size() + 511) / 512 * 512);
  const FloatValues values{reinterpret_cast<const std::uint8_t*>(weights.data()), FloatType::f32,
                           weights.size()};
  for (const Kernels* kernels : available_kernels()) {
    CAPTURE(kernels->name);
    for (const float s : {1.f / 64, 6.f / 2688, 0x1p-12f})
      CHECK((nvfp4(*kernels, values, s) == nvfp4(kScalarKernels, values, s)));
    CHECK((mxfp4(*kernels, values) == mxfp4(kScalarKernels, values)));
  }
}

TEST_CASE("cutoffs are where the reference's code changes, for every scale and every BF16 magnitude") {
  // Among them global scales with which quotients of BF16 weights are thresholds, or round to one.
  std::vector<float> scales_2 = {1,           0x1p-9f, Bf16Cutoffs::kLeast, Bf16Cutoffs::kMost,
                                 0.1f / 2688, 1.f / 3, 0x1p-8f / 7};
  for (const float s : scales_2) {
    const Bf16Cutoffs cutoffs(s);
    std::uint64_t wrong = 0;
    for (unsigned code = 1; code < 127; ++code) {
      const float scale = static_cast<float>(format::e4m3_value(static_cast<std::uint8_t>(code))) * s;
      const auto [offset, row] = cutoffs.of[code];
      for (unsigned bits = 0; bits < 0x7F80; ++bits) {
        const unsigned sum = std::min(65535u, bits + (offset & 0xFFFF));
        const unsigned place = sum < Bf16Cutoffs::kFloor ? 0 : sum - Bf16Cutoffs::kFloor;
        const unsigned cell = cutoffs.cells[row][place * Bf16Cutoffs::kCellFactor >> 16];
        const float w = std::bit_cast<float>(bits << 16);
        wrong += (cell + place) >> Bf16Cutoffs::kUnitBits != nvfp4_nibble(w, scale);
      }
    }
    CAPTURE(s);
    CHECK(wrong == 0);
  }
}

TEST_CASE("BF16 codes on and beside every threshold, in groups of every scale") {
  const Draw draw = random_bytes(77);
  for (unsigned round = 0; round < 40; ++round) {
    const unsigned nearly = draw() | draw() << 8u;
    // A BF16 weight over a threshold: its quotients by it and its doubles are the threshold, or nearly.
    const float scale_2 = round % 4 == 0 ? 0x1p-10f
                                         : std::bit_cast<float>((nearly % 0x800 + 0x3000) << 16) /
                                               std::array{3.f, 5.f, 7.f}[round % 3];
    std::vector<std::uint16_t> bits;
    while (bits.size() < 16 * 512) {
      // The group's largest, which gives it a scale from far below 2^-9 to far beyond 448.
      const float amax = scale_2 * 6 * std::ldexp(1 + static_cast<float>(draw()) / 256, draw() % 24 - 13);
      float scratch[kNvfp4Group] = {amax};
      std::uint32_t ignored[2];
      const float scale =
          static_cast<float>(format::e4m3_value(nvfp4_group(scratch, scale_2, ignored))) * scale_2;
      bits.push_back(static_cast<std::uint16_t>(std::bit_cast<std::uint32_t>(amax) >> 16));
      for (int i = 1; i < 16; ++i) {
        const float threshold = std::array{.25f, .75f, 1.25f, 1.75f, 2.5f, 3.5f, 5.f}[draw() % 7];
        const unsigned at = std::bit_cast<std::uint32_t>(threshold * scale) >> 16;
        const bool zero = draw() < 8;
        bits.push_back(static_cast<std::uint16_t>((zero ? 0 : at + draw() % 3 - 1) | (draw() & 0x80u) << 8));
      }
    }
    const FloatValues values{reinterpret_cast<const std::uint8_t*>(bits.data()), FloatType::bf16,
                             bits.size()};
    for (const Kernels* kernels : available_kernels()) {
      CAPTURE(kernels->name);
      CAPTURE(scale_2);
      CHECK((nvfp4(*kernels, values, scale_2) == nvfp4(kScalarKernels, values, scale_2)));
      CHECK((mxfp4(*kernels, values) == mxfp4(kScalarKernels, values)));
    }
  }
}

TEST_CASE("errors of NVFP4 and of the codebook, by hand") {
  // Two groups of one block: 6 and 12 have the scales 1 and 2, so that the planes' scale is 2.
  std::vector<float> weights(32);
  const float first[] = {6, 2.25f, -5.25f, .125f, -.125f, 0}, second[] = {12, -5, 5.25f, -0.f, 1.75f};
  std::copy(std::begin(first), std::end(first), weights.begin());
  std::copy(std::begin(second), std::end(second), weights.begin() + 16);
  const FloatValues values{reinterpret_cast<const std::uint8_t*>(weights.data()), FloatType::f32, 32};
  std::vector<std::uint8_t> nibbles(16), scales(2);
  kScalarKernels.to_nvfp4(values, 1, nibbles.data(), scales.data());
  for (const Kernels* kernels : available_kernels()) {
    CAPTURE(kernels->name);
    FloatErrors found;
    kernels->add_errors(values, nibbles.data(), scales.data(), 1, found);
    CHECK(ErrorSums::total(found.weights.sum) == 6 + 2.25 + 5.25 + .125 + .125 + 12 + 5 + 5.25 + 1.75);
    // 6 2 -6 0 -0 0, 12 -4 6 0 2: -5 is halfway between -4 and -6, whose even index is that of -4.
    CHECK(ErrorSums::total(found.nvfp4.sum) == -.25 - .75 - .125 + .125 + 1 + .75 + .25);
    CHECK(ErrorSums::total(found.nvfp4.squares) == .0625 + .5625 + 2 * .015625 + 1 + .5625 + .0625);
    // Levels 2 and 8 (above 5): 8 2 -8 2 -2 2, 8 -2 8 2 2, and 2 for each zero that is left; the fifth is -0.
    CHECK(ErrorSums::total(found.kept.sum) ==
          2 - .25 - 2.75 + 1.875 - 1.875 + 2 - 4 + 3 + 2.75 + 2 + .25 + 10 * 2 + 11 * 2);
    // Zeros in odd columns turn; the fifth, in an even one, loses its sign.
    CHECK(ErrorSums::total(found.alternated.sum) ==
          2 - .25 - 2.75 - 2.125 + 2.125 - 2 - 4 + 3 + 2.75 - 2 + .25 + 0 - 2);
    CHECK(found.alternated.sum[1] == -.25 + 3 - 6 * 2);
  }
}

TEST_CASE("what is not finite is found wherever it is") {
  for (const FloatType type : kTypes)
    for (const std::uint64_t at : {0u, 1u, 63u, 64u, 130u, 159u}) {
      std::vector<std::uint8_t> bytes(160 * bytes_of(type));
      for (const bool nan : {false, true}) {
        const std::uint32_t bits = (type == FloatType::f32   ? 0xFF800000u
                                    : type == FloatType::f16 ? 0xFC00u
                                                             : 0xFF80u) +
                                   nan;
        std::memcpy(&bytes[at * bytes_of(type)], &bits, bytes_of(type));
        for (const Kernels* kernels : available_kernels())
          CHECK(!std::isfinite(kernels->max_magnitude({bytes.data(), type, 160})));
      }
    }
}
