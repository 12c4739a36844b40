// The conversions of quant/kernels.h on a GPU. Everything is enqueued on a stream; slices and targets are
// those of the CPU's kernels, but in device memory and aligned: weights, their strides and targets to 16
// bytes, MXFP4 and NVFP4 scales and their strides to 2.
#pragma once

#include <cuda_runtime.h>

#include "quant/cuda/blocks.h"
#include "quant/kernels.h"

namespace planesmith::cuda {

// What launches report, in device memory, cleared before the first.
struct Report {
  ZeroCount zeros;    // if they are counted
  std::uint32_t bad;  // not 0: a NaN or an infinity was met; what was written is unspecified
};

// Errors of the launch itself are left to cudaGetLastError. MXFP4 has no zeros to count or to balance.
void convert(const Mxfp4Slice& slice, ZeroRule zeros, const PlaneTarget& target, Report* report,
             cudaStream_t stream);
void convert(const Fp8Slice& slice, ZeroRule zeros, const PlaneTarget& target, Report* report,
             cudaStream_t stream);
void convert(const Nvfp4Slice& slice, ZeroRule zeros, const PlaneTarget& target, Report* report,
             cudaStream_t stream);

// Whether the current device can run these kernels: cudaSuccess, or why not.
cudaError_t supported();

}  // namespace planesmith::cuda
