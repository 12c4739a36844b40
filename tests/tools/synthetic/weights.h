// Contents for synthetic tensors: codes and scales as a quantizer would have written them for weights of a
// trained model. Student-t values with 5 degrees of freedom, scaled by each block's maximum, have the
// histogram that real MXFP4 experts have: about 11.5 % zeros, 5 % sixes.
#pragma once

#include <cstdint>
#include <vector>

#include "base/file.h"
#include "checkpoint/safetensors.h"
#include "format/slice.h"

namespace planesmith::synthetic {

class Weights {
 public:
  // experts: router tables (integers) hold values below it.
  Weights(std::uint64_t seed, std::uint64_t experts);

  // Fills `to` with the bytes at `begin` (a multiple of 16) of the tensor's data. The same seed, name, shape
  // and position give the same bytes, so pieces may be filled in any order by any number of threads. A weight
  // and its scale differ in dtype and the last component of the name, and belong together because the rest of
  // the name is the same. Dtypes that no weight uses stay zero.
  void fill(const Tensor& tensor, std::uint64_t begin, Bytes to) const;

 private:
  // Sixteen bytes of magnitudes (sign bits zero) and the scale bytes of the one or two blocks they make up.
  struct Chunk {
    std::uint8_t bytes[kMxfp4Group / 2];
    std::uint8_t scales[kMxfp4Group / kNvfp4Group];
  };
  using Pool = std::vector<Chunk>;

  std::uint64_t seed_, experts_;
  Pool mxfp4_, nvfp4_, e4m3_, bf16_, f32_;
};

}  // namespace planesmith::synthetic
