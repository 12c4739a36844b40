// The conversions of quant/kernels.h on a GPU. Everything is enqueued on a stream; slices and targets are
// those of the CPU's kernels, but in device memory and aligned: weights, their strides and targets to 16
// bytes, MXFP4 and NVFP4 scales and their strides to 2.
#pragma once

#include <cuda_runtime.h>

#include "quant/kernels.h"

namespace planesmith::cuda {

// What a matrix's launches report, in device memory, cleared before the first.
struct Report {
  ZeroCount zeros;    // of count_and_keep
  std::uint32_t bad;  // not 0: a NaN or an infinity was met; what was written is unspecified
};

enum class ZeroPass {
  keep,
  alternate,
  count_and_keep,           // guess that zeros need no balance ...
  alternate_if_one_signed,  // ... and, once the whole matrix is counted, convert again where they do
};

// Errors of the launch itself are left to cudaGetLastError.
void convert(const Mxfp4Slice& slice, ZeroPass pass, const PlaneTarget& target, Report* report,
             cudaStream_t stream);
void convert(const Fp8Slice& slice, ZeroPass pass, const PlaneTarget& target, Report* report,
             cudaStream_t stream);
void convert(const Nvfp4Slice& slice, ZeroPass pass, const PlaneTarget& target, Report* report,
             cudaStream_t stream);

// Whether the current device can run these kernels: cudaSuccess, or why not.
cudaError_t supported();

}  // namespace planesmith::cuda
