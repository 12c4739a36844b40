// What one GPU lane computes, run on the host, against the scalar reference. (That the lanes' results reach
// their places is tested where there is a device: cuda_test.cc.)
#include <doctest/doctest.h>

#include <bit>
#include <cstring>
#include <random>
#include <vector>

#include "format/planes.h"
#include "quant/cuda/blocks.h"
#include "quant/kernels.h"

namespace planesmith::cuda {
namespace {

using format::kLanes;
using format::kQuads;
using format::kScaleCols;
using format::kTileCols;
using format::kTileRows;

std::uint32_t f32(double value) {
  return std::bit_cast<std::uint32_t>(static_cast<float>(value));
}

// Factors from all over float32's range, and those whose products come close to every cut.
std::vector<std::uint32_t> factor_bits(std::mt19937& random) {
  std::vector<std::uint32_t> all = {
      f32(0),       f32(-0.0),      f32(1),        f32(-1),       1,
      0x80000001,   0x007FFFFF,     0x00800000,    0x7F7FFFFF,    0xFF7FFFFF,
      f32(1e-30),   f32(6e-30),     f32(3e-12),    f32(1.0 / 3),  f32(6.0 / 448),
      f32(1 / 1.5), f32(1 / 1.125), f32(0x1p-126), f32(0x1.8p127)};
  for (int step = 8; step < 16; ++step)
    for (const double cut : {.25, .75, 1.25, 1.75, 2.5, 3.5, 5.0, 8.48528137423857})
      for (int near = -1; near <= 1; ++near)
        all.push_back(f32(cut / step) + static_cast<std::uint32_t>(near));
  for (int i = 0; i < 300; ++i) {
    const std::uint32_t bits = random();
    if ((bits >> 23 & 255) != 255) all.push_back(bits);
    all.push_back((bits & 0x807FFFFFu) | (100 + bits % 40) << 23);  // of usual size
  }
  return all;
}

struct Planes {
  std::vector<std::uint8_t> codes = std::vector<std::uint8_t>(format::kCodeTile);
  std::vector<std::uint8_t> nibbles = std::vector<std::uint8_t>(format::kNibbleTile);
  std::vector<std::uint8_t> quintals = std::vector<std::uint8_t>(format::kQuintalTile);
  std::vector<std::uint8_t> scales = std::vector<std::uint8_t>(2 * kTileRows);
  PlaneTarget target() { return {codes.data(), nibbles.data(), quintals.data(), scales.data()}; }
};

// Checks the blocks of a tile against its planes; block_at(row, half) is the lane's result.
template <typename BlockAt>
void check_tile(const Planes& planes, const BlockAt& block_at) {
  std::uint64_t wrong_nibbles = 0, wrong_scales = 0;
  for (unsigned row = 0; row < kTileRows; ++row)
    for (unsigned half = 0; half < 2; ++half) {
      const Block block = block_at(row, half);
      for (unsigned c = 0; c < kScaleCols; ++c) {
        const unsigned col = half * kScaleCols + c;
        const std::uint64_t quad = format::nibble_offset(row, col, kTileCols);
        const unsigned expected = format::nibble_at(planes.nibbles.data() + quad, col % 4);
        wrong_nibbles += (block.nibbles[c / 8] >> c % 8 * 4 & 15) != expected;
      }
      wrong_scales += block.scale != planes.scales[format::scale_offset(row, half * kScaleCols, kTileCols)];
    }
  CHECK(wrong_nibbles == 0);
  CHECK(wrong_scales == 0);
}

constexpr ZeroSigns kSigns[] = {ZeroSigns::keep, ZeroSigns::alternate};

void check_counts(const Tally& tally, const ZeroCount& count) {
  CHECK(!tally.bad);
  CHECK(tally.zeros == count.zeros);
  CHECK(tally.negative == count.negative);
}

}  // namespace

TEST_CASE("words: codes and quintals of every nibble in every place") {
  for (unsigned place = 0; place < 8; ++place)
    for (unsigned nibble = 0; nibble < 16; ++nibble)
      for (const Word others : {0u, 0xFFFFFFFFu, 0x76543210u, 0x89ABCDEFu, 0x5D5D2A2Au}) {
        const Word w = (others & ~(15u << 4 * place)) | nibble << 4 * place;
        Word codes = 0, quintals[2] = {};
        for (unsigned i = 8; i-- > 0;) {
          codes = codes << 2 | format::code_of(w >> 4 * i & 15);
          quintals[i / 4] = quintals[i / 4] * 5 + format::quintal_digit(w >> 4 * i & 15);
        }
        CHECK((codes_of(w, ~w) & 0xFFFF) == codes);
        CHECK((codes_of(~w, w) >> 16) == codes);
        CHECK(quintals_of(w) == (quintals[0] | quintals[1] << 10));
      }
}

TEST_CASE("e4m3 magnitudes and codes correspond") {
  for (unsigned byte = 1; byte < 0x7F; ++byte) {
    const int code = code_of_float<kE4m3Steps>(bits_of(e4m3_magnitude(byte)));
    CHECK(double{e4m3_magnitude(byte)} == format::e4m3_value(static_cast<std::uint8_t>(byte)));
    CHECK(e4m3_from_code(code) == byte);
    CHECK(e4m3_from_code(code + 1) == byte + 1);
  }
  CHECK(e4m3_from_code(-100000) == 1);
  CHECK(e4m3_from_code(100000) == 0x80);
}

TEST_CASE("FP8 blocks equal the reference") {
  std::mt19937 random(1);
  int round = 0;
  for (const std::uint32_t bits : factor_bits(random)) {
    CAPTURE(bits);
    // Bytes of all sizes, or around one size, or few that are not zero.
    std::vector<std::uint8_t> weights(kTileRows * kTileCols);
    const unsigned around = random() % 128, spread = 1 + random() % 64;
    for (std::uint8_t& b : weights) {
      const unsigned any = random();
      b = static_cast<std::uint8_t>(any);
      if (round % 3 == 1)
        b = static_cast<std::uint8_t>((any & 0x80) | ((around + (any >> 8) % spread) & 0x7F));
      if (round % 3 == 2 && any >> 8 & 15) b &= 0x80;
      if ((b & 0x7F) == 0x7F) b ^= 1;
    }
    ++round;
    const Fp8Slice slice{
        kTileRows, kTileCols, weights.data(), kTileCols, reinterpret_cast<const std::uint8_t*>(&bits), 4,
        16,        64,        ScaleType::f32};
    for (const ZeroSigns signs : kSigns) {
      Planes planes;
      ZeroCount count;
      REQUIRE(kScalarKernels.fp8(slice, signs, planes.target(), &count));
      const ZeroRule zeros{true, signs == ZeroSigns::alternate};
      Tally tally, any_tally;
      const Fp8Scale scale = fp8_scale(factor_of_f32(bits), true);
      check_tile(planes, [&](unsigned row, unsigned half) {
        Word words[8];
        std::memcpy(words, weights.data() + row * kTileCols + half * kScaleCols, sizeof words);
        return fp8_block(words, scale, zeros, tally);
      });
      check_tile(planes, [&](unsigned row, unsigned half) {
        return fp8_any_block(
            weights.data() + row * kTileCols + half * kScaleCols,
            [&](unsigned) { return double{std::bit_cast<float>(bits)}; }, zeros, any_tally);
      });
      check_counts(tally, count);
      check_counts(any_tally, count);
    }
  }
}

TEST_CASE("NVFP4 blocks equal the reference") {
  std::mt19937 random(2);
  int round = 0;
  for (const std::uint32_t bits : factor_bits(random)) {
    CAPTURE(bits);
    std::vector<std::uint8_t> weights(kTileRows * kTileCols / 2), scales(kTileRows * kTileCols / 16);
    const unsigned around = random() % 128;
    for (std::uint8_t& b : weights) {
      b = static_cast<std::uint8_t>(random());
      if (round % 3 == 2 && random() % 8) b &= 0x88;
    }
    for (std::uint8_t& b : scales) {
      b = static_cast<std::uint8_t>(random());
      if (round % 3 != 0) b = static_cast<std::uint8_t>((b & 0x80) | ((around + random() % 24) & 0x7F));
      if (random() % 16 == 0) b &= 0x80;
      if ((b & 0x7F) == 0x7F) b ^= 1;
    }
    ++round;
    const Nvfp4Slice slice{kTileRows,
                           kTileCols,
                           weights.data(),
                           kTileCols / 2,
                           scales.data(),
                           kTileCols / 16,
                           std::bit_cast<float>(bits)};
    const Nvfp4Tensor tensor = nvfp4_tensor(bits);
    for (const ZeroSigns signs : kSigns) {
      Planes planes;
      ZeroCount count;
      REQUIRE(kScalarKernels.nvfp4(slice, signs, planes.target(), &count));
      Tally tally;
      check_tile(planes, [&](unsigned row, unsigned half) {
        Word words[4];
        std::memcpy(words, weights.data() + (row * kTileCols + half * kScaleCols) / 2, sizeof words);
        std::uint16_t pair;
        std::memcpy(&pair, scales.data() + row * kTileCols / 16 + 2 * half, sizeof pair);
        return nvfp4_block(words, pair, tensor.factor, tensor.up, tensor.maps,
                           {true, signs == ZeroSigns::alternate}, tally);
      });
      check_counts(tally, count);
    }
  }
}

// The table's ends represent everything beyond them.
TEST_CASE("NVFP4 index maps end in all zeros and all sevens") {
  std::mt19937 random(3);
  for (const std::uint32_t bits : factor_bits(random)) {
    const Nvfp4Tensor tensor = nvfp4_tensor(bits);
    CHECK((tensor.maps[0].low | tensor.maps[0].high) == 0);
    CHECK(tensor.maps[kMaps - 1].low == 0x77777700u);
    CHECK(tensor.maps[kMaps - 1].high == 0x77777777u);
  }
}

TEST_CASE("a NaN or an infinity is noticed") {
  const Fp8Scale good = fp8_scale(factor_of_f32(f32(1)), true),
                 bad = fp8_scale(factor_of_f32(0x7F800000), false);
  const Nvfp4Tensor tensor = nvfp4_tensor(f32(1));
  Word words[8] = {};
  const auto notices = [&](const auto& block) {
    Tally tally;
    block(tally);
    return tally.bad;
  };
  for (unsigned i = 0; i < 32; ++i) {
    for (unsigned b = 0; b < 256; ++b) {
      words[i / 4] = b << i % 4 * 8;
      CHECK(notices([&](Tally& t) { fp8_block(words, good, {}, t); }) == ((b & 0x7F) == 0x7F));
    }
    words[i / 4] = 0;
  }
  CHECK(notices([&](Tally& t) { fp8_block(words, bad, {}, t); }));
  for (unsigned b = 0; b < 256; ++b) {
    const auto byte = static_cast<std::uint8_t>(b);
    CHECK(notices([&](Tally& t) { mxfp4_block(words, byte, t); }) == (b == 255));
    for (const unsigned pair : {b, b << 8})
      CHECK(notices([&](Tally& t) {
              nvfp4_block(words, pair, tensor.factor, tensor.up, tensor.maps, {}, t);
            }) == ((b & 0x7F) == 0x7F));
  }
}

}  // namespace planesmith::cuda
