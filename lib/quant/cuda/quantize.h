// Float weights to FP4 (quant/quantize.h) on a GPU: a thread takes a group and computes what the scalar
// reference does, by the same code. Everything is enqueued on a stream; values, nibbles and scales are in
// device memory, values and nibbles aligned to 16 bytes.
#pragma once

#include <cuda_runtime.h>

#include "quant/quantize.h"

namespace planesmith::cuda {

// The largest magnitude's bits of these values and of what `most` held before.
void max_magnitude(const FloatValues& values, std::uint32_t* most, cudaStream_t stream);
// Finite values only. scale_2: NVFP4's.
void quantize(Fp4 to, const FloatValues& values, float scale_2, std::uint8_t* nibbles, std::uint8_t* scales,
              cudaStream_t stream);

}  // namespace planesmith::cuda
