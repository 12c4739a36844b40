#include "quant/cpu_quantizer.h"

#include <algorithm>
#include <cmath>

namespace planesmith {
namespace {

// Pieces stay in the caches from the read to the write. NVFP4's pass twice, since the largest magnitude comes
// first.
class CpuQuantizer : public Quantizer {
 public:
  explicit CpuQuantizer(const Kernels& kernels) : kernels_(kernels) {}

  float quantize(Fp4 to, const FloatStream& stream, Bytes room) override {
    const Bytes in = room.first(room.size() / 2), out = room.subspan(room.size() / 2);
    std::uint32_t most = 0;
    const auto finite = [&](const FloatValues& values) {
      most = std::max(most, magnitude_bits(kernels_.max_magnitude(values)));
      return std::isfinite(float_of(most));
    };
    if (to == Fp4::nvfp4 &&
        !for_pieces(stream, in,
                    [&](std::size_t, std::uint64_t, const FloatValues& values) { return finite(values); }))
      return float_of(most);
    const float scale_2 = nvfp4_scale_2(float_of(most));
    for_pieces(stream, in, [&](std::size_t m, std::uint64_t first, const FloatValues& values) {
      const Bytes nibbles = out.first(values.count / 2),
                  scales = out.subspan(values.count / 2, values.count / group_of(to));
      if (to == Fp4::nvfp4)
        kernels_.to_nvfp4(values, scale_2, nibbles.data(), scales.data());
      else if (finite(values))
        kernels_.to_mxfp4(values, nibbles.data(), scales.data());
      else
        return false;
      stream.write(m, first, nibbles, scales);
      return true;
    });
    return float_of(most);
  }

 private:
  // Until one returns false.
  template <class Do>
  static bool for_pieces(const FloatStream& stream, Bytes in, Do work) {
    for (std::size_t m = 0; m < stream.matrices.size(); ++m) {
      const auto [type, count] = stream.matrices[m];
      const std::uint64_t step = in.size() / bytes_of(type) / kPieceUnit * kPieceUnit;
      for (std::uint64_t first = 0; first < count; first += step) {
        const std::uint64_t n = std::min(step, count - first);
        const Bytes piece = in.first(n * bytes_of(type));
        stream.read(m, first, piece);
        if (!work(m, first, FloatValues{piece.data(), type, n})) return false;
      }
    }
    return true;
  }

  const Kernels& kernels_;
};

}  // namespace

std::unique_ptr<Quantizer> make_cpu_quantizer(const Kernels& kernels) {
  return std::make_unique<CpuQuantizer>(kernels);
}

}  // namespace planesmith
