// What every Quantizer must do: give the scalar reference's bytes, whatever the pieces that its room makes it
// work in.
#pragma once

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "base/parallel.h"
#include "quant/backend.h"
#include "unit/kernel_inputs.h"

namespace planesmith::testing {

inline constexpr Fp4 kFp4s[] = {Fp4::nvfp4, Fp4::mxfp4};

struct FloatMatrix {
  FloatType type;
  std::vector<std::uint8_t> bytes;
  std::uint64_t count() const { return bytes.size() / bytes_of(type); }
  FloatValues values() const { return {bytes.data(), type, count()}; }
};
inline FloatMatrix floats(const std::vector<float>& values) {
  FloatMatrix out{FloatType::f32, std::vector<std::uint8_t>(4 * values.size())};
  std::memcpy(out.bytes.data(), values.data(), out.bytes.size());
  return out;
}
inline FloatMatrix halves(FloatType type, const std::vector<std::uint16_t>& bits) {
  FloatMatrix out{type, std::vector<std::uint8_t>(2 * bits.size())};
  std::memcpy(out.bytes.data(), bits.data(), out.bytes.size());
  return out;
}

struct Fp4Matrix {
  std::vector<std::uint8_t> nibbles, scales;
  bool operator==(const Fp4Matrix&) const = default;
};
struct Fp4Result {
  std::uint32_t amax = 0;  // its bits
  std::vector<Fp4Matrix> matrices;
  bool finite() const { return std::isfinite(std::bit_cast<float>(amax)); }
};

inline Fp4Result by_reference(Fp4 to, const std::vector<FloatMatrix>& matrices) {
  Fp4Result result;
  for (const FloatMatrix& m : matrices)
    result.amax =
        std::max(result.amax, std::bit_cast<std::uint32_t>(kScalarKernels.max_magnitude(m.values())));
  if (!result.finite()) return result;
  for (const FloatMatrix& m : matrices) {
    Fp4Matrix& out = result.matrices.emplace_back();
    out.nibbles.resize(m.count() / 2);
    out.scales.resize(m.count() / group_of(to));
    if (to == Fp4::nvfp4)
      kScalarKernels.to_nvfp4(m.values(), nvfp4_scale_2(std::bit_cast<float>(result.amax)),
                              out.nibbles.data(), out.scales.data());
    else
      kScalarKernels.to_mxfp4(m.values(), out.nibbles.data(), out.scales.data());
  }
  return result;
}

// Every byte must be written just once.
inline Fp4Result by(Backend& backend, Quantizer& quantizer, Fp4 to, const std::vector<FloatMatrix>& matrices,
                    std::uint64_t room) {
  Fp4Result result;
  std::vector<FloatStream::Matrix> shapes;
  for (const FloatMatrix& m : matrices) {
    shapes.push_back({m.type, m.count()});
    result.matrices.push_back(
        {std::vector<std::uint8_t>(m.count() / 2), std::vector<std::uint8_t>(m.count() / group_of(to))});
  }
  std::uint64_t written = 0, all = 0;
  for (const Fp4Matrix& m : result.matrices) all += m.nibbles.size() + m.scales.size();
  const auto put = [&](std::vector<std::uint8_t>& where, std::uint64_t at, ConstBytes bytes) {
    REQUIRE(at + bytes.size() <= where.size());
    std::copy(bytes.begin(), bytes.end(), where.begin() + static_cast<std::ptrdiff_t>(at));
    written += bytes.size();
  };
  const FloatStream stream{
      shapes,
      [&](std::size_t m, std::uint64_t first, Bytes bytes) {
        REQUIRE(first * bytes_of(matrices[m].type) + bytes.size() <= matrices[m].bytes.size());
        std::memcpy(bytes.data(), matrices[m].bytes.data() + first * bytes_of(matrices[m].type),
                    bytes.size());
      },
      [&](std::size_t m, std::uint64_t first, ConstBytes nibbles, ConstBytes scales) {
        put(result.matrices[m].nibbles, first / 2, nibbles);
        put(result.matrices[m].scales, first / group_of(to), scales);
      }};
  const std::unique_ptr<Buffer> buffer = backend.allocate(room);
  result.amax = std::bit_cast<std::uint32_t>(quantizer.quantize(to, stream, buffer->bytes()));
  if (result.finite()) CHECK(written == all);
  return result;
}

inline void check_same(Backend& backend, Quantizer& quantizer, const std::vector<FloatMatrix>& matrices,
                       std::uint64_t room = 1 << 16) {
  for (const Fp4 to : kFp4s) {
    CAPTURE(static_cast<int>(to));
    const Fp4Result expected = by_reference(to, matrices), found = by(backend, quantizer, to, matrices, room);
    CHECK(expected.finite() == found.finite());
    if (!expected.finite()) continue;
    CHECK(expected.amax == found.amax);
    for (std::size_t m = 0; m < matrices.size(); ++m) CHECK((expected.matrices[m] == found.matrices[m]));
  }
}

// Finite 16-bit values, all there are, in a random order: as they come, and by size, so that the middling and
// the small ones are not beside large ones only.
inline void check_all_halves(Backend& backend, Quantizer& quantizer) {
  const Draw draw = random_bytes(21);
  for (const FloatType type : {FloatType::bf16, FloatType::f16}) {
    const unsigned mantissa = type == FloatType::bf16 ? 7 : 10, top = type == FloatType::bf16 ? 255 : 31;
    for (const unsigned width : {1u, 4u, 16u, top}) {  // of the exponents in one tensor
      for (unsigned low = 0; low < top; low += width) {
        std::vector<std::uint16_t> bits;
        for (unsigned exponent = low; exponent < std::min(low + width, top); ++exponent)
          for (unsigned m = 0; m < 1u << mantissa; ++m)
            for (const unsigned sign : {0u, 0x8000u})
              bits.push_back(static_cast<std::uint16_t>(sign | exponent << mantissa | m));
        for (std::size_t i = bits.size(); i-- > 1;)
          std::swap(bits[i], bits[(draw() | draw() << 8u | static_cast<unsigned>(draw()) << 16) % (i + 1)]);
        bits.resize((bits.size() + 31) / 32 * 32);
        CAPTURE(low);
        CAPTURE(width);
        check_same(backend, quantizer, {halves(type, bits)});
      }
    }
  }
}

// Zeros of both signs, subnormals, groups of zeros beside others, the ends of the range, one value
// everywhere.
inline void check_edges(Backend& backend, Quantizer& quantizer) {
  constexpr float kLeast = 0x1p-149f, kNormal = 0x1p-126f, kMost = 0x1.fffffep127f;
  for (const float value : {0.f, -0.f, kLeast, -kLeast, 3 * kLeast, kNormal, kMost, -kMost, 1.f, -2688.f,
                            0.02f, 0x1p-101f, 6e-30f, 0x1p-60f, 8.485281f, 8.485282f}) {
    CAPTURE(value);
    std::vector<float> all(512, value), first(512), last(512, -0.f), mixed(512, kLeast);
    first[0] = value;
    last.back() = value;
    for (std::size_t i = 0; i < mixed.size(); i += 32) mixed[i] = value;
    for (const auto& values : {all, first, last, mixed}) check_same(backend, quantizer, {floats(values)});
    check_same(backend, quantizer, {floats(all), floats(last)});  // a scale in common
  }
  // Quotients that are thresholds, and floats beside them.
  std::vector<float> ties;
  for (const float threshold : {.25f, .75f, 1.25f, 1.75f, 2.5f, 3.5f, 5.f, 6.f})
    for (const float scale : {1.f, 0x1p-4f, 3.f})
      for (const float sign : {1.f, -1.f})
        for (const float w : {std::nextafter(threshold * scale, 0.f), threshold * scale,
                              std::nextafter(threshold * scale, 99.f)})
          ties.insert(ties.end(), {sign * w, 6.f * scale, 0.f, -0.f});
  for (const float most : {2688.f, 2688.f * 3, 2688.f / 64, 1e-3f}) {
    std::vector<float> values = ties;
    values.resize((values.size() + 64) / 32 * 32, most);
    check_same(backend, quantizer, {floats(values)});
  }
  // A block's exponent goes up within one float, at every power of two.
  std::vector<float> steps;
  for (int x = -140; x < 125; ++x)
    for (const float w : {0x1.0f876cp3f, 0x1.0f876ep3f, 0x1.0f8770p3f}) {
      steps.push_back(std::ldexp(w, x));
      steps.resize(steps.size() + 31, std::ldexp(-w / 7, x));
    }
  check_same(backend, quantizer, {floats(steps)});
}

// Infinities and NaNs are reported, wherever they are.
inline void check_nonfinite(Backend& backend, Quantizer& quantizer) {
  const Draw draw = random_bytes(22);
  for (const FloatType type : kTypes)
    for (const std::uint64_t at : {0u, 31u, 8191u, 8192u, 20479u})
      for (const std::uint32_t bits : {type == FloatType::f32   ? 0x7F800000u
                                       : type == FloatType::f16 ? 0x7C00u
                                                                : 0x7F80u,
                                       type == FloatType::f32   ? 0xFFC00001u
                                       : type == FloatType::f16 ? 0xFE01u
                                                                : 0xFFC1u}) {
        FloatMatrix good{type, draw_values(draw, type, 20480, false)}, bad = good;
        std::memcpy(&bad.bytes[at * bytes_of(type)], &bits, bytes_of(type));
        check_same(backend, quantizer, {bad});
        check_same(backend, quantizer, {good, bad});
        check_same(backend, quantizer, {good});
      }
}

inline std::vector<FloatMatrix> draw_matrices(const Draw& draw) {
  std::vector<FloatMatrix> matrices;
  const unsigned most = 1u + draw() % 3u;
  for (unsigned m = 0; m < most; ++m) {
    const FloatType type = kTypes[draw() % 3u];
    const std::uint64_t count = 32 * draw_below(draw, draw() % 4 == 0 ? 5000 : 100);
    matrices.push_back({type, draw_values(draw, type, count, draw() % 4 == 0)});
  }
  return matrices;
}
inline std::uint64_t draw_room(const Draw& draw) {
  constexpr std::uint64_t kRooms[] = {1 << 14, 20000, 1 << 16, 1 << 20};
  return kRooms[draw() % 4u];
}
inline void check_drawn(Backend& backend, Quantizer& quantizer, int rounds) {
  const Draw draw = random_bytes(23);
  for (int round = 0; round < rounds; ++round) {
    CAPTURE(round);
    const auto matrices = draw_matrices(draw);
    check_same(backend, quantizer, matrices, draw_room(draw));
  }
}

inline void check_workers(Backend& backend) {
  constexpr int kWorkers = 6, kRounds = 120;
  std::vector<std::unique_ptr<Quantizer>> quantizers;
  for (int worker = 0; worker < kWorkers; ++worker) quantizers.push_back(backend.make_quantizer(worker));
  std::vector<std::vector<FloatMatrix>> work;
  const Draw draw = random_bytes(24);
  for (int i = 0; i < kRounds; ++i) work.push_back(draw_matrices(draw));
  std::vector<int> same(kRounds);
  parallel_for(kRounds, kWorkers, [&](std::size_t i, int worker) {
    const Fp4 to = kFp4s[i % 2];
    const Fp4Result found = by(backend, *quantizers[static_cast<std::size_t>(worker)], to, work[i], 1 << 16);
    same[i] = found.matrices == by_reference(to, work[i]).matrices;
  });
  CHECK(std::count(same.begin(), same.end(), 1) == kRounds);
}

// What reading or writing throws comes through, and the quantizer works on.
inline void check_errors(Backend& backend, Quantizer& quantizer) {
  const Draw draw = random_bytes(25);
  const FloatMatrix matrix{FloatType::bf16, draw_values(draw, FloatType::bf16, 1 << 17, false)};
  const FloatStream::Matrix shape{matrix.type, matrix.count()};
  const std::unique_ptr<Buffer> room = backend.allocate(1 << 15);
  for (const Fp4 to : kFp4s)
    for (int calls = 1; calls < 40; calls += 3) {
      int left = calls;
      const auto call = [&] {
        if (--left == 0) throw std::runtime_error("here");
      };
      const FloatStream stream{{&shape, 1},
                               [&](std::size_t, std::uint64_t first, Bytes to_fill) {
                                 call();
                                 std::memcpy(to_fill.data(), matrix.bytes.data() + 2 * first, to_fill.size());
                               },
                               [&](std::size_t, std::uint64_t, ConstBytes, ConstBytes) { call(); }};
      try {
        quantizer.quantize(to, stream, room->bytes());
        CHECK(left > 0);
      } catch (const std::runtime_error& error) {
        CHECK(std::string(error.what()) == "here");
      }
    }
  check_same(backend, quantizer, {matrix});
}

}  // namespace planesmith::testing
