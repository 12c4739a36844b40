// The kernels against the rules of FORMAT.md sections 1, 4 and 5, computed here a second time, element by
// element with the mathematical library's log2, from the planes' side: which value each position must have.
#include "quant/kernels.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <fstream>
#include <iterator>
#include <regex>
#include <string>

#include "base/error.h"
#include "unit/kernel_inputs.h"

namespace planesmith::testing {
namespace {

double e2m1(unsigned nibble) {
  constexpr double magnitude[8] = {0, .5, 1, 1.5, 2, 3, 4, 6};
  return nibble & 8 ? -magnitude[nibble & 7] : magnitude[nibble & 7];
}
double e4m3(unsigned byte) {
  const int exponent = static_cast<int>(byte >> 3 & 15), mantissa = static_cast<int>(byte & 7);
  const double magnitude =
      exponent == 0 ? std::ldexp(mantissa / 8., -6) : std::ldexp(1 + mantissa / 8., exponent - 7);
  return byte & 0x80 ? -magnitude : magnitude;
}

double value(const Fp8Slice& s, std::uint64_t n, std::uint64_t k) {
  const std::uint8_t* scales = s.scale + n / s.block_rows * s.scale_stride;
  const std::uint64_t block = k / s.block_cols;
  float scale = 0;
  if (s.scale_type == ScaleType::f32) std::memcpy(&scale, scales + block * 4, 4);
  if (s.scale_type == ScaleType::bf16)  // the upper half of a float
    std::memcpy(reinterpret_cast<std::uint8_t*>(&scale) + 2, scales + block * 2, 2);
  return e4m3(s.weight[n * s.weight_stride + k]) *
         (s.scale_type == ScaleType::e8m0 ? std::ldexp(1., scales[block] - 127) : double{scale});
}
unsigned packed_nibble(const std::uint8_t* weight, std::uint64_t stride, std::uint64_t n, std::uint64_t k) {
  const std::uint8_t byte = weight[n * stride + k / 2];
  return k % 2 == 0 ? byte & 15u : byte >> 4u;
}
double value(const Nvfp4Slice& s, std::uint64_t n, std::uint64_t k) {
  return e2m1(packed_nibble(s.weight, s.weight_stride, n, k)) * e4m3(s.scale[n * s.scale_stride + k / 16]) *
         double{s.scale_2};
}

// Nibbles [rows, cols] and scale bytes [rows, cols / 32], row-major.
struct Quantized {
  std::vector<unsigned> nibble, scale;
  ZeroCount zeros;
};

template <typename Slice>
Quantized quantize(const Slice& s, ZeroSigns signs) {
  Quantized q;
  for (std::uint64_t n = 0; n < s.rows; ++n)
    for (std::uint64_t block = 0; block < s.cols / 32; ++block) {
      double amax = 0;
      for (std::uint64_t k = 32 * block; k < 32 * block + 32; ++k)
        amax = std::max(amax, std::abs(value(s, n, k)));
      const double exact = std::nearbyint(std::log2(amax / 6 + 1e-30));
      const int x = amax == 0 ? -127 : static_cast<int>(std::clamp(exact, -127., 127.));
      q.scale.push_back(static_cast<unsigned>(x + 127));
      for (std::uint64_t k = 32 * block; k < 32 * block + 32; ++k) {
        const double u = std::ldexp(value(s, n, k), -x);
        unsigned index = 0;
        for (const double threshold : {.25, .75, 1.25, 1.75, 2.5, 3.5, 5.}) index += threshold < std::abs(u);
        bool sign = std::signbit(u);
        if (u == 0) {
          ++q.zeros.zeros;
          q.zeros.negative += sign;
          if (signs == ZeroSigns::alternate) sign = k % 2 == 1;
        }
        q.nibble.push_back(index | (sign ? 8 : 0));
      }
    }
  return q;
}

Quantized quantize(const Mxfp4Slice& s, ZeroSigns) {
  Quantized q;
  for (std::uint64_t n = 0; n < s.rows; ++n) {
    for (std::uint64_t k = 0; k < s.cols; ++k)
      q.nibble.push_back(packed_nibble(s.weight, s.weight_stride, n, k));
    for (std::uint64_t k = 0; k < s.cols / 32; ++k) q.scale.push_back(s.scale[n * s.scale_stride + k]);
  }
  return q;
}

unsigned code(unsigned nibble) {
  const double v = e2m1(nibble), magnitude = std::abs(v) > 2.5 ? 4 : 1;
  const double level = std::signbit(v) ? -magnitude : magnitude;
  return level == -4 ? 0 : level == -1 ? 1 : level == 1 ? 2 : 3;
}

// The planes of a quantized matrix, byte by byte.
Planes planes_of(const Quantized& q, std::uint64_t rows, std::uint64_t cols, std::uint64_t lead) {
  Planes planes(rows, cols, lead);
  planes.zeros = q.zeros;
  const PlaneTarget to = planes.target(15, false);
  for (std::uint64_t tile = 0; tile < rows / 16 * (cols / 64); ++tile)
    for (unsigned lane = 0; lane < 32; ++lane) {
      std::array<std::uint8_t, 10> record{};
      for (unsigned j = 0; j < 8; ++j) {
        const std::uint64_t row = tile / (cols / 64) * 16 + j / 4 * 8 + lane / 4;
        const std::uint64_t col = tile % (cols / 64) * 64 + j / 2 % 2 * 32 + j % 2 * 16 + lane % 4 * 4;
        unsigned codes = 0, nibbles = 0, word = 0, weight = 1;
        for (unsigned c = 0; c < 4; ++c) {
          const unsigned nibble = q.nibble[row * cols + col + c];
          codes |= code(nibble) << 2 * c;
          nibbles |= nibble << 4 * c;
          word += weight * ((nibble & 7) > 4 ? (nibble & 7) - 5 : nibble & 7);
          weight *= 5;
        }
        to.codes[tile * 256 + lane * 8 + j] = static_cast<std::uint8_t>(codes);
        to.nibbles[tile * 512 + lane * 16 + 2 * j] = static_cast<std::uint8_t>(nibbles & 255);
        to.nibbles[tile * 512 + lane * 16 + 2 * j + 1] = static_cast<std::uint8_t>(nibbles >> 8);
        for (unsigned bit = 0; bit < 10; ++bit)
          if (word >> bit & 1)
            record[(10 * j + bit) / 8] |= static_cast<std::uint8_t>(1u << (10 * j + bit) % 8);
      }
      std::copy_n(record.begin(), 8, to.quintals + tile * 320 + lane * 8);
      std::copy_n(record.begin() + 8, 2, to.quintals + tile * 320 + 256 + lane * 2);
    }
  for (std::uint64_t n = 0; n < rows; ++n)
    for (std::uint64_t s = 0; s < cols / 32; ++s)
      to.scales[(n / 16 * (cols / 32) + s) * 16 + n % 16] =
          static_cast<std::uint8_t>(q.scale[n * (cols / 32) + s]);
  return planes;
}

template <typename Slice>
void check(const Slice& slice, const Draw& draw) {
  CHECK(!find_nonfinite(slice).found);
  for (const ZeroSigns signs : {ZeroSigns::keep, ZeroSigns::alternate}) {
    const std::uint64_t lead = draw() & 1 ? draw() % 64u : 0;
    const bool stream = draw() & 1;
    CAPTURE(lead);
    CAPTURE(stream);
    const Planes expected = planes_of(quantize(slice, signs), slice.rows, slice.cols, lead);
    for (const Kernels* kernels : available_kernels()) {
      CAPTURE(kernels->name);
      Planes planes(slice.rows, slice.cols, lead);
      REQUIRE(convert(*kernels, slice, signs, planes.target(15, stream), &planes.zeros));
      CHECK(planes.bytes() == expected.bytes());
      CHECK(planes.zeros.zeros == expected.zeros.zeros);
      CHECK(planes.zeros.negative == expected.zeros.negative);
      ZeroCount count;  // without any plane
      REQUIRE(convert(*kernels, slice, signs, {}, &count));
      CHECK(count.zeros == expected.zeros.zeros);
      CHECK(count.negative == expected.zeros.negative);
    }
  }
}

constexpr int kRounds = 150;

}  // namespace

TEST_CASE("planes of random and edge slices are what the format says") {
  const Draw draw = random_bytes(1);
  for (int round = 0; round < kRounds; ++round) {
    CAPTURE(round);
    check(draw_mxfp4(draw).slice, draw);
    check(draw_fp8(draw).slice, draw);
    check(draw_nvfp4(draw).slice, draw);
  }
}

TEST_CASE("zeros are counted where there is nothing else") {
  constexpr std::uint64_t rows = 64, cols = 192;
  for (const std::uint8_t sign : {0, 0x88}) {
    const std::vector<std::uint8_t> nibbles(rows * cols / 2, sign), scales(rows * cols / 16, 0x38);
    const std::vector<std::uint8_t> e4m3(rows * cols, sign & 0x80);
    const std::vector<float> blocks(6, 0.5f);
    const std::uint64_t negative = sign == 0 ? 0 : rows * cols;
    for (const Kernels* kernels : available_kernels()) {
      CAPTURE(kernels->name);
      ZeroCount fp8, nvfp4;
      CHECK(kernels->fp8({rows, cols, e4m3.data(), cols, reinterpret_cast<const std::uint8_t*>(blocks.data()),
                          12, 64, 64, ScaleType::f32},
                         ZeroSigns::keep, {}, &fp8));
      CHECK(fp8.zeros == rows * cols);
      CHECK(fp8.negative == negative);
      CHECK(kernels->nvfp4({rows, cols, nibbles.data(), cols / 2, scales.data(), cols / 16, 1.f},
                           ZeroSigns::keep, {}, &nvfp4));
      CHECK(nvfp4.zeros == rows * cols);
      CHECK(nvfp4.negative == negative);
    }
  }
}

TEST_CASE("one plane at a time gives the same bytes and touches nothing else") {
  const Draw draw = random_bytes(2);
  for (unsigned wanted = 0; wanted < 16; ++wanted)
    for (const Kernels* kernels : available_kernels()) {
      CAPTURE(wanted);
      CAPTURE(kernels->name);
      const auto compare = [&](const auto& slice) {
        Planes expected = planes_of(quantize(slice, ZeroSigns::keep), slice.rows, slice.cols, 0);
        Planes planes(slice.rows, slice.cols, 0);
        for (unsigned i = 0; i < 4; ++i)
          if ((wanted >> i & 1) == 0) expected.storage[i] = planes.storage[i];
        const PlaneTarget target = planes.target(wanted, false);
        REQUIRE(convert(*kernels, slice, ZeroSigns::keep, target));
        CHECK(planes.storage[0].size() == expected.storage[0].size());
        for (unsigned i = 0; i < 4; ++i)
          if ((wanted >> i & 1) == 0)
            CHECK(std::count(planes.storage[i].begin(), planes.storage[i].end(), Planes::kGuard) ==
                  static_cast<std::ptrdiff_t>(planes.storage[i].size()));
        if (wanted == 15) CHECK(planes.bytes() == expected.bytes());
        // A plane is the same whatever other planes are wanted.
        Planes all(slice.rows, slice.cols, 0);
        REQUIRE(convert(*kernels, slice, ZeroSigns::keep, all.target(15, false)));
        const PlaneTarget one = planes.target(15, false), every = all.target(15, false);
        const auto same = [&](unsigned i, const std::uint8_t* a, const std::uint8_t* b, std::uint64_t n) {
          if (wanted >> i & 1) CHECK(std::equal(a, a + n, b));
        };
        same(0, one.codes, every.codes, format::code_bytes(slice.rows, slice.cols));
        same(1, one.nibbles, every.nibbles, format::nibble_bytes(slice.rows, slice.cols));
        same(2, one.quintals, every.quintals, format::quintal_bytes(slice.rows, slice.cols));
        same(3, one.scales, every.scales, format::scale_bytes(slice.rows, slice.cols));
      };
      compare(draw_mxfp4(draw).slice);
      compare(draw_fp8(draw).slice);
      compare(draw_nvfp4(draw).slice);
    }
}

TEST_CASE("every e4m3 byte under every kind of scale") {
  const Draw draw = random_bytes(3);
  for (int round = 0; round < 200; ++round) {
    Field weight(16, 256, draw), scale(1, 4, draw);
    // Each row holds all finite bytes, shifted so that every byte meets other companions in its block.
    for (unsigned r = 0; r < 16; ++r)
      for (unsigned c = 0; c < 256; ++c)
        weight.row(r)[c] = static_cast<std::uint8_t>(c * 167 + 16 * r + draw() % 2u);
    for (unsigned r = 0; r < 16; ++r) without_e4m3_nan(weight.row(r), 256);
    const float s = draw_scale(draw);
    std::memcpy(scale.row(0), &s, 4);
    CAPTURE(s);
    check(Fp8Slice{16, 256, weight.row(0), weight.stride, scale.row(0), 4, 128, 256, ScaleType::f32}, draw);
  }
}

TEST_CASE("a NaN or an infinity anywhere is refused and found") {
  const Draw draw = random_bytes(4);
  const auto refused = [&](auto c) {
    spoil(c, draw);
    const NonFinite where = find_nonfinite(c.slice);
    CHECK(where.found);
    for (const Kernels* kernels : available_kernels()) {
      CAPTURE(kernels->name);
      Planes planes(c.slice.rows, c.slice.cols, 0);
      CHECK(!convert(*kernels, c.slice, ZeroSigns::keep, planes.target(15, false)));
      CHECK(!convert(*kernels, c.slice, ZeroSigns::alternate, planes.target(0, false)));
    }
    return where;
  };
  for (int round = 0; round < 2 * kRounds; ++round) {
    CAPTURE(round);
    CHECK(refused(draw_mxfp4(draw)).in_scale);
    refused(draw_fp8(draw));
    CHECK(refused(draw_nvfp4(draw)).in_scale);
  }
  for (const float bad : {INFINITY, -INFINITY, NAN})
    for (const Kernels* kernels : available_kernels()) {
      Nvfp4Case c = draw_nvfp4(draw);
      c.slice.scale_2 = bad;
      Planes planes(c.slice.rows, c.slice.cols, 0);
      CHECK(!kernels->nvfp4(c.slice, ZeroSigns::keep, planes.target(15, false), nullptr));
    }
}

TEST_CASE("the first bad element is named by row and column") {
  const Draw draw = random_bytes(5);
  Fp8Case c = draw_fp8(draw);
  c.weight.row(7)[33] = 0xFF;
  c.weight.row(9)[2] = 0x7F;
  NonFinite where = find_nonfinite(c.slice);
  CHECK((where.found && !where.in_scale && where.row == 7 && where.col == 33));
  Nvfp4Case d = draw_nvfp4(draw);
  d.scale.row(3)[2] = 0x7F;
  where = find_nonfinite(d.slice);
  CHECK((where.found && where.in_scale && where.row == 3 && where.col == 2));
}

TEST_CASE("planes out of nibble planes") {
  const Draw draw = random_bytes(6);
  for (std::uint64_t cols = 64; cols <= 64 * 9; cols += 64) {
    Mxfp4Case c = draw_mxfp4(draw);
    Planes expected(c.slice.rows, c.slice.cols, 0);
    REQUIRE(kScalarKernels.mxfp4(c.slice, expected.target(15, false)));
    for (const Kernels* kernels : available_kernels())
      for (const std::uint64_t lead : {0u, 5u})
        for (const unsigned wanted : {4u, 5u}) {
          CAPTURE(kernels->name);
          Planes shifted(c.slice.rows, c.slice.cols, lead), to(c.slice.rows, c.slice.cols, lead);
          REQUIRE(kScalarKernels.mxfp4(c.slice, shifted.target(15, false)));
          const PlaneTarget from = shifted.target(15, false), target = to.target(wanted, false);
          kernels->from_nibbles(from.nibbles, c.slice.rows / 16 * (c.slice.cols / 64), target.codes,
                                target.quintals);
          CHECK(to.storage[2].size() == shifted.storage[2].size());
          for (unsigned i = 0; i < 4; ++i)
            if ((wanted >> i & 1) == 0) shifted.storage[i].assign(shifted.storage[i].size(), Planes::kGuard);
          CHECK(to.bytes() == shifted.bytes());
        }
  }
}

TEST_CASE("histogram and remap of any length and alignment") {
  const Draw draw = random_bytes(7);
  for (std::size_t n : {0, 1, 15, 31, 32, 63, 64, 65, 127, 200, 1000, 4096, 5003, 70000, 200003}) {
    std::vector<std::uint8_t> data(n + 128);
    for (auto& byte : data) byte = draw();
    if (n == 70000) std::fill(data.begin(), data.end(), 0x33);  // one nibble only: counters must not overflow
    std::array<std::uint8_t, 16> map;
    for (auto& entry : map) entry = draw() & 15;
    const std::size_t lead = draw() & 63u;
    std::array<std::uint64_t, 16> expected;
    expected.fill(3);
    std::vector<std::uint8_t> mapped = data;
    for (std::size_t i = lead; i < lead + n; ++i) {
      ++expected[data[i] % 16];
      ++expected[data[i] / 16];
      mapped[i] = static_cast<std::uint8_t>(map[data[i] % 16] + 16 * map[data[i] / 16]);
    }
    for (const Kernels* kernels : available_kernels()) {
      CAPTURE(kernels->name);
      CAPTURE(n);
      std::array<std::uint64_t, 16> counts;
      counts.fill(3);
      kernels->histogram(data.data() + lead, n, counts.data());
      CHECK(counts == expected);
      std::vector<std::uint8_t> copy = data;
      kernels->remap(copy.data() + lead, n, map.data());
      CHECK(copy == mapped);
    }
  }
}

TEST_CASE("mode auto balances below five percent of the rarer sign, exactly") {
  CHECK(!one_signed({0, 0}));
  CHECK(one_signed({20, 0}));
  CHECK(one_signed({20, 20}));
  CHECK(!one_signed({20, 1}));
  CHECK(!one_signed({20, 19}));
  CHECK(one_signed({21, 1}));
  CHECK(one_signed({21, 20}));
}

TEST_CASE("kernels are chosen by name") {
  const auto available = available_kernels();
  CHECK(available.front() == &kScalarKernels);
  CHECK(&choose_kernels("auto") == available.back());
  for (const Kernels* kernels : available) CHECK(&choose_kernels(kernels->name) == kernels);
  for (const char* isa : {"avx2", "avx512", "neon"})
    if (std::none_of(available.begin(), available.end(), [&](const Kernels* k) { return k->name == isa; }))
      CHECK_THROWS_AS(choose_kernels(isa), Error);
  try {
    choose_kernels("sse");
    FAIL("an unknown name must be refused");
  } catch (const Error& error) {
    CHECK(error.code() == ErrorCode::usage);
  }
}

TEST_CASE("the processor is asked for every extension that kernels are compiled for") {
  const auto text_of = [](const char* path) {
    std::ifstream file(path);
    return std::string(std::istreambuf_iterator<char>(file), {});
  };
  const std::string asked = text_of(SOURCE_DIR "/lib/quant/kernels.cc");
  const std::regex region("PLANESMITH_TARGET_BEGIN\\(\\s*\"([^\"]*)\"\\)"), extension("[a-z0-9]+");
  int checked = 0;
  for (const char* path : {SOURCE_DIR "/lib/quant/avx2.cc", SOURCE_DIR "/lib/quant/avx512.cc"}) {
    const std::string text = text_of(path);
    std::smatch list;
    REQUIRE(std::regex_search(text, list, region));
    const std::string extensions = list[1];
    for (std::sregex_iterator it(extensions.begin(), extensions.end(), extension), end; it != end; ++it) {
      const std::string name = it->str();
      CAPTURE(name);
      std::string bit = "bit_" + name;
      std::transform(bit.begin() + 4, bit.end(), bit.begin() + 4,
                     [](char c) { return static_cast<char>('a' <= c && c <= 'z' ? c - 'a' + 'A' : c); });
      CHECK((asked.find("\"" + name + "\"") != asked.npos || asked.find(bit) != asked.npos));
      ++checked;
    }
  }
  CHECK(checked > 12);
}

}  // namespace planesmith::testing
