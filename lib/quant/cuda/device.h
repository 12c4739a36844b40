// A GPU, its errors and its memory.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace planesmith::cuda {

// Reads the error and forgets it, where it can be forgotten.
std::string reason(cudaError_t error);

struct Gpu {
  int device = 0;
  std::string name;

  // Error: GPU, what failed, why.
  void check(cudaError_t error, std::string_view what_failed) const;
  // CUDA keeps the current device for each thread.
  void use() const { check(cudaSetDevice(device), "cannot be used"); }
};

// Device memory for one piece of work at a time, handed out in pieces that suit the kernels' alignment.
class DeviceMemory {
 public:
  DeviceMemory() = default;
  DeviceMemory(const DeviceMemory&) = delete;
  ~DeviceMemory() { cudaFree(memory_); }

  static std::size_t piece(std::size_t bytes) { return (bytes + 255) / 256 * 256; }

  // Starts anew, with room for `bytes` in pieces.
  void reserve(const Gpu& gpu, std::size_t bytes);
  std::uint8_t* take(std::size_t bytes) {
    std::uint8_t* const at = memory_ + used_;
    used_ += piece(bytes);
    return at;
  }

 private:
  std::uint8_t* memory_ = nullptr;
  std::size_t bytes_ = 0, used_ = 0;
};

}  // namespace planesmith::cuda
