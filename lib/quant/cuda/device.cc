#include "quant/cuda/device.h"

#include <fmt/format.h>

#include "base/error.h"
#include "base/size.h"

namespace planesmith::cuda {

std::string reason(cudaError_t error) {
  cudaGetLastError();
  return cudaGetErrorString(error);
}

void Gpu::check(cudaError_t error, std::string_view what_failed) const {
  if (error != cudaSuccess)
    throw Error(fmt::format("GPU {} ({}): {}: {}", device, name, what_failed, reason(error)));
}

void DeviceMemory::reserve(const Gpu& gpu, std::size_t bytes) {
  used_ = 0;
  if (bytes <= bytes_) return;
  cudaFree(memory_);
  memory_ = nullptr;
  bytes_ = 0;
  if (const cudaError_t error = cudaMalloc(&memory_, bytes); error != cudaSuccess)
    throw Error(
        fmt::format("GPU {} ({}): cannot allocate {} of device memory: {}; use fewer "
                    "--threads, another GPU (--gpus) or --backend cpu",
                    gpu.device, gpu.name, short_size(bytes), reason(error)));
  bytes_ = bytes;
}

}  // namespace planesmith::cuda
