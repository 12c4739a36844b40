#include <algorithm>

#include "quant/cuda/quantize.h"

namespace planesmith::cuda {
namespace {

constexpr unsigned kThreads = 256;
constexpr unsigned kAllLanes = 0xFFFFFFFFu;

// A group of values, widened.
template <FloatType kType, unsigned kGroup>
struct Group {
  float weight[kGroup];

  __device__ Group(const std::uint8_t* values, std::uint64_t number) {
    constexpr unsigned kLoads = kGroup * bytes_of(kType) / sizeof(uint4);
    union {
      uint4 loads[kLoads];
      std::uint8_t bytes[kLoads * sizeof(uint4)];
    };
    const uint4* const from = reinterpret_cast<const uint4*>(values) + number * kLoads;
#pragma unroll
    for (unsigned i = 0; i < kLoads; ++i) loads[i] = from[i];
#pragma unroll
    for (unsigned i = 0; i < kGroup; ++i) weight[i] = value_at({bytes, kType, kGroup}, i);
  }
};

template <FloatType kType>
__global__ void __launch_bounds__(kThreads)
    find_max(const std::uint8_t* values, std::uint64_t groups, std::uint32_t* most) {
  std::uint32_t found = 0;
  for (std::uint64_t g = std::uint64_t{blockIdx.x} * kThreads + threadIdx.x; g < groups;
       g += std::uint64_t{gridDim.x} * kThreads) {
    const Group<kType, kNvfp4Group> group(values, g);
#pragma unroll
    for (const float weight : group.weight) found = max(found, magnitude_bits(weight));
  }
  found = __reduce_max_sync(kAllLanes, found);
  if (threadIdx.x % 32 == 0 && found != 0) atomicMax(most, found);
}

template <FloatType kType>
__global__ void __launch_bounds__(kThreads) make_nvfp4(const std::uint8_t* values, std::uint64_t groups,
                                                       float scale_2, uint2* nibbles, std::uint8_t* scales) {
  const std::uint64_t g = std::uint64_t{blockIdx.x} * kThreads + threadIdx.x;
  if (g >= groups) return;
  const Group<kType, kNvfp4Group> group(values, g);
  std::uint32_t packed[kNvfp4Group / 8];
  scales[g] = nvfp4_group(group.weight, scale_2, packed);
  nibbles[g] = make_uint2(packed[0], packed[1]);
}

template <FloatType kType>
__global__ void __launch_bounds__(kThreads)
    make_mxfp4(const std::uint8_t* values, std::uint64_t groups, uint4* nibbles, std::uint8_t* scales) {
  const std::uint64_t g = std::uint64_t{blockIdx.x} * kThreads + threadIdx.x;
  if (g >= groups) return;
  const Group<kType, kMxfp4Group> group(values, g);
  std::uint32_t packed[kMxfp4Group / 8];
  scales[g] = mxfp4_group(group.weight, packed);
  nibbles[g] = make_uint4(packed[0], packed[1], packed[2], packed[3]);
}

unsigned blocks_of(std::uint64_t groups) {
  return static_cast<unsigned>((groups + kThreads - 1) / kThreads);
}

template <FloatType kType>
void quantize_type(Fp4 to, const FloatValues& values, float scale_2, std::uint8_t* nibbles,
                   std::uint8_t* scales, cudaStream_t stream) {
  const std::uint64_t groups = values.count / group_of(to);
  if (groups == 0) return;
  if (to == Fp4::nvfp4)
    make_nvfp4<kType><<<blocks_of(groups), kThreads, 0, stream>>>(values.data, groups, scale_2,
                                                                  reinterpret_cast<uint2*>(nibbles), scales);
  else
    make_mxfp4<kType><<<blocks_of(groups), kThreads, 0, stream>>>(values.data, groups,
                                                                  reinterpret_cast<uint4*>(nibbles), scales);
}

template <FloatType kType>
void max_type(const FloatValues& values, std::uint32_t* most, cudaStream_t stream) {
  constexpr unsigned kMostBlocks = 2048;  // each ends with atomic operations on one word
  const std::uint64_t groups = values.count / kNvfp4Group;
  if (groups == 0) return;
  find_max<kType>
      <<<std::min(blocks_of(groups), kMostBlocks), kThreads, 0, stream>>>(values.data, groups, most);
}

}  // namespace

void max_magnitude(const FloatValues& values, std::uint32_t* most, cudaStream_t stream) {
  switch (values.type) {
    case FloatType::bf16:
      return max_type<FloatType::bf16>(values, most, stream);
    case FloatType::f16:
      return max_type<FloatType::f16>(values, most, stream);
    case FloatType::f32:
      return max_type<FloatType::f32>(values, most, stream);
  }
}

void quantize(Fp4 to, const FloatValues& values, float scale_2, std::uint8_t* nibbles, std::uint8_t* scales,
              cudaStream_t stream) {
  switch (values.type) {
    case FloatType::bf16:
      return quantize_type<FloatType::bf16>(to, values, scale_2, nibbles, scales, stream);
    case FloatType::f16:
      return quantize_type<FloatType::f16>(to, values, scale_2, nibbles, scales, stream);
    case FloatType::f32:
      return quantize_type<FloatType::f32>(to, values, scale_2, nibbles, scales, stream);
  }
}

}  // namespace planesmith::cuda
