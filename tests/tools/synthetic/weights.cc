#include "synthetic/weights.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <span>
#include <string_view>

#include "base/hash.h"
#include "format/number.h"

namespace planesmith::synthetic {
namespace {

// A pool fits in the second-level cache, but is so large that, with new signs for every use, no compressor
// finds a chunk twice.
constexpr std::size_t kPool = 1 << 15;
constexpr double kSigma = 1. / 64;  // standard deviation of a weight, roughly that of trained experts
constexpr double kTensorMax = 16;   // largest magnitude expected in a tensor, in the samples' own unit

// The finalizer of SplitMix64: consecutive numbers in, independent ones out.
std::uint64_t mix(std::uint64_t x) {
  x += 0x9e3779b97f4a7c15;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
  x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
  return x ^ (x >> 31);
}

std::uint64_t seed_of(std::uint64_t seed, std::string_view name) {
  const Xxh3 digest = Xxh3::of(bytes_of(name));
  std::uint64_t low;
  std::memcpy(&low, digest.bytes.data(), sizeof low);
  return mix(seed ^ low);
}

// Sums of uniform integers, a division and a square root: the same bits on every machine, unlike log and cos.
class Samples {
 public:
  explicit Samples(std::uint64_t seed) : state_(mix(seed)) {}
  double student() {
    const int freedom = 4 + static_cast<int>(mix(state_++) & 1);
    double squares = 0;
    for (int i = 0; i < freedom; ++i) {
      const double n = normal();
      squares += n * n;
    }
    return normal() / std::sqrt(squares / freedom);
  }

 private:
  double normal() {  // eight 16-bit uniforms
    std::int64_t sum = 0;
    for (int half = 0; half < 2; ++half)
      for (std::uint64_t r = mix(state_++), i = 0; i < 4; ++i, r >>= 16)
        sum += static_cast<std::int64_t>(r & 0xffff);
    return static_cast<double>(sum - 4 * 65535) / (65536 * .816496580927726);
  }
  std::uint64_t state_;
};

// One block of magnitudes scaled by 2^round(log2(max / 6)): nibbles to codes, returns the scale byte.
std::uint8_t mxfp4_block(std::span<const double> values, std::uint8_t* codes) {
  double max = 0;
  for (const double v : values) max = std::max(max, std::abs(v) * kSigma);
  const int exponent = format::scale_exponent(max);
  const double unit = format::power_of_two(exponent);
  for (std::size_t i = 0; i < values.size(); ++i) {
    const unsigned m = format::magnitude_index(std::abs(values[i]) * kSigma / unit);
    codes[i / 2] = static_cast<std::uint8_t>(codes[i / 2] | m << i % 2 * 4);
  }
  return static_cast<std::uint8_t>(exponent + 127);
}

std::uint8_t e4m3_nearest(double magnitude) {  // never NaN
  static const auto table = [] {
    std::array<double, 127> values{};
    for (unsigned b = 0; b < 127; ++b) values[b] = format::e4m3_value(static_cast<std::uint8_t>(b));
    return values;
  }();
  const auto above = std::lower_bound(table.begin(), table.end(), magnitude);
  if (above == table.begin()) return 0;
  if (above == table.end()) return 126;
  const auto index = static_cast<std::uint8_t>(above - table.begin());
  return magnitude - above[-1] < *above - magnitude ? static_cast<std::uint8_t>(index - 1) : index;
}

// One NVFP4 group: the e4m3 scale brings the block's maximum to 6, the per-tensor scale the tensor's to
// 6 * 448.
std::uint8_t nvfp4_block(std::span<const double> values, std::uint8_t* codes) {
  double max = 0;
  for (const double v : values) max = std::max(max, std::abs(v));
  const std::uint8_t scale = e4m3_nearest(448 * max / kTensorMax);
  for (std::size_t i = 0; i < values.size(); ++i) {
    const double u = std::abs(values[i]) * 6 * 448 / (kTensorMax * format::e4m3_value(scale));
    codes[i / 2] = static_cast<std::uint8_t>(codes[i / 2] | format::magnitude_index(u) << i % 2 * 4);
  }
  return scale;
}

// A number in [0.75, 1.25) that belongs to a name.
float around_one(std::uint64_t seed) {
  return .75f + static_cast<float>(mix(seed) >> 40) * 0x1p-25f;
}

std::string_view before_last(std::string_view name) {
  return name.substr(0, name.rfind('.'));
}

}  // namespace

Weights::Weights(std::uint64_t seed, std::uint64_t experts)
    : seed_(seed), experts_(std::max<std::uint64_t>(experts, 1)) {
  Samples samples(seed);
  std::vector<double> all(kMxfp4Group * kPool);
  for (double& v : all) v = samples.student();
  const auto make = [&](Pool& pool, const auto& encode) {
    pool.resize(kPool);
    for (std::size_t i = 0; i < kPool; ++i)
      encode(std::span<const double>(all).subspan(kMxfp4Group * i, kMxfp4Group), pool[i] = {});
  };
  make(mxfp4_, [](std::span<const double> values, Chunk& chunk) {
    chunk.scales[0] = chunk.scales[1] = mxfp4_block(values, chunk.bytes);
  });
  make(nvfp4_, [](std::span<const double> values, Chunk& chunk) {
    for (std::size_t group = 0; group < kMxfp4Group / kNvfp4Group; ++group)
      chunk.scales[group] = nvfp4_block(values.subspan(kNvfp4Group * group, kNvfp4Group),
                                        chunk.bytes + kNvfp4Group / 2 * group);
  });
  make(e4m3_, [](std::span<const double> values, Chunk& chunk) {
    for (std::size_t i = 0; i < 16; ++i)
      chunk.bytes[i] = e4m3_nearest(448 * std::abs(values[i]) / kTensorMax);
  });
  make(bf16_, [](std::span<const double> values, Chunk& chunk) {
    for (std::size_t i = 0; i < 8; ++i) {
      const auto bits = std::bit_cast<std::uint32_t>(static_cast<float>(std::abs(values[i]) * kSigma));
      const auto upper = static_cast<std::uint16_t>(bits >> 16);
      std::memcpy(chunk.bytes + 2 * i, &upper, 2);
    }
  });
  make(f32_, [](std::span<const double> values, Chunk& chunk) {
    for (std::size_t i = 0; i < 4; ++i) {
      const auto value = static_cast<float>(std::abs(values[i]) * kSigma);
      std::memcpy(chunk.bytes + 4 * i, &value, 4);
    }
  });
}

void Weights::fill(const Tensor& tensor, std::uint64_t begin, Bytes to) const {
  const std::string_view suffix = std::string_view(tensor.name).substr(before_last(tensor.name).size());
  // What a weight shares with its scales.
  const std::uint64_t seed = seed_of(seed_, before_last(tensor.name));

  // Chunks of a pool, each with signs of its own: bit `sign` of every element of `bits` bits.
  const auto chunks = [&](const Pool& pool, std::uint64_t sign_mask) {
    for (std::uint64_t at = 0; at < to.size(); at += 16) {
      const std::uint64_t random = mix(seed + (begin + at) / 16);
      std::uint64_t words[2];
      std::memcpy(words, pool[random % kPool].bytes, 16);
      words[0] ^= mix(random) & sign_mask;
      words[1] ^= mix(~random) & sign_mask;
      std::memcpy(to.data() + at, words, std::min<std::uint64_t>(16, to.size() - at));
    }
  };
  // The scales that belong to those chunks; rows differ by powers of two now and then.
  const auto scales = [&](const Pool& pool, std::uint64_t per_chunk, bool vary_rows) {
    const std::uint64_t columns = tensor.shape.empty() ? 1 : std::max<std::uint64_t>(tensor.shape.back(), 1);
    for (std::uint64_t at = 0; at < to.size(); ++at) {
      const std::uint64_t index = begin + at;
      std::uint8_t scale = pool[mix(seed + index / per_chunk) % kPool].scales[index % per_chunk];
      if (vary_rows) {
        const std::uint64_t row = mix(~seed + index / columns) % 16;
        scale = static_cast<std::uint8_t>(scale + (row < 4) - (row >= 14));
      }
      to[at] = scale;
    }
  };
  const auto scalars = [&](std::uint64_t from, double value) {
    for (std::uint64_t at = 0; at + 4 <= to.size(); at += 4) {
      const float scaled = around_one(from + (begin + at) / 4) * static_cast<float>(value);
      std::memcpy(to.data() + at, &scaled, 4);
    }
  };

  switch (tensor.dtype) {
    case Dtype::i8:
      return chunks(mxfp4_, 0x8888888888888888);
    case Dtype::u8:
      return chunks(nvfp4_, 0x8888888888888888);
    case Dtype::f8_e8m0:
      return scales(mxfp4_, 1, true);
    case Dtype::f8_e4m3:
      if (suffix == ".weight_scale") return scales(nvfp4_, kMxfp4Group / kNvfp4Group, false);
      return chunks(e4m3_, 0x8080808080808080);
    case Dtype::bf16:
      return chunks(bf16_, 0x8000800080008000);
    case Dtype::f32:
      // Gate and up projection of one expert share the per-tensor scale, so it belongs to the expert.
      if (suffix == ".weight_scale_2")
        return scalars(seed_of(seed_, before_last(before_last(tensor.name))),
                       kTensorMax * kSigma / (6 * 448));
      if (suffix == ".weight_scale_inv" || suffix == ".scale")
        return scalars(seed, kTensorMax * kSigma / 448);
      if (suffix == ".input_scale") return scalars(seed, 1. / 256);
      return chunks(f32_, 0x8000000080000000);
    case Dtype::i64:
      for (std::uint64_t at = 0; at + 8 <= to.size(); at += 8) {
        const std::uint64_t expert = mix(seed + (begin + at) / 8) % experts_;
        std::memcpy(to.data() + at, &expert, 8);
      }
      return;
    default:
      return;
  }
}

}  // namespace planesmith::synthetic
