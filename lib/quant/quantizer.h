// What makes FP4 of float weights: the CPU's kernels or a GPU, a few matrices at a time.
#pragma once

#include <cstdint>
#include <functional>
#include <span>

#include "base/file.h"
#include "quant/quantize.h"

namespace planesmith {

// Matrices that are read and written piece by piece; those of one call share one global scale of NVFP4.
// `first`: a position in a matrix, in values.
struct FloatStream {
  struct Matrix {
    FloatType type;
    std::uint64_t count;  // divisible by the group
  };
  std::span<const Matrix> matrices;
  // Fills `to` with values from `first` on. They may be asked for twice.
  std::function<void(std::size_t matrix, std::uint64_t first, Bytes to)> read;
  // Takes what the values from `first` on became.
  std::function<void(std::size_t matrix, std::uint64_t first, ConstBytes nibbles, ConstBytes scales)> write;
};

// Every piece but a matrix's last has a multiple of this many values: whole batches of the kernels, which are
// at most 16 groups of 32 values.
inline constexpr std::uint64_t kPieceUnit = 512;

class Quantizer {
 public:
  virtual ~Quantizer() = default;
  // Works piece by piece through `room`, 16 KiB or more that the backend allocated. Returns the largest
  // magnitude, of which nvfp4_scale_2() makes the global scale; where it is not finite, what was written is
  // unspecified. Errors: those of read and write, a device that fails.
  virtual float quantize(Fp4 to, const FloatStream& stream, Bytes room) = 0;
};

}  // namespace planesmith
