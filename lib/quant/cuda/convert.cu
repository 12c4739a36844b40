#include <bit>
#include <cstring>

#include "format/planes.h"
#include "quant/cuda/blocks.h"
#include "quant/cuda/convert.h"

namespace planesmith::cuda {
namespace {

using format::kLanes;
using format::kScaleCols;
using format::kTileCols;
using format::kTileRows;

// A thread block converts a segment of a panel of 16 rows. Its warps stand side by side, a tile each, and
// take kSteps steps of that width.
constexpr unsigned kWarps = 8, kSteps = 4;
constexpr unsigned kStepTiles = kWarps, kSegmentTiles = kSteps * kStepTiles;
constexpr unsigned kStepCols = kStepTiles * kTileCols, kSegmentCols = kSegmentTiles * kTileCols;
static_assert(std::has_single_bit(kSegmentCols));  // segments and scale blocks begin together
constexpr unsigned kAllLanes = 0xFFFFFFFFu;

// Where a lane starts: row and first column of its 32 columns of the first step. Lane 4g + t takes row 8 * (t
// / 2) + g and half t % 2 of a tile, so that the four lanes of a g together hold what they together store.
struct Origin {
  std::uint64_t row, col;
};

// A source gives a lane its blocks. place() says where they are; load() fetches one, early; block() turns it
// into nibbles, later. Before that, prepare() lets all threads put into shared memory what lanes look up.
// kThreadBlocks is how many thread blocks a multiprocessor should hold at once: the compiler saves registers
// for that.
struct NothingShared {};
struct Place {
  const std::uint8_t *weights, *scales;
};
struct Raw4 {
  uint4 weights;
  unsigned scale;
};
struct Raw8 {
  uint4 weights[2];
};

struct Mxfp4Source {
  static constexpr int kThreadBlocks = 6;
  Mxfp4Slice slice;
  using Shared = NothingShared;
  using Raw = Raw4;
  __device__ void prepare(Shared&, Origin) const {}
  __device__ Place place(Origin lane) const {
    return {slice.weight + lane.row * slice.weight_stride + lane.col / 2,
            slice.scale + lane.row * slice.scale_stride + lane.col / kScaleCols};
  }
  __device__ Raw load(const Place& place, unsigned step) const {
    return {*reinterpret_cast<const uint4*>(place.weights + step * (kStepCols / 2)),
            place.scales[step * (kStepCols / kScaleCols)]};
  }
  __device__ Block block(const Raw& raw, const Shared&, Origin, unsigned, ZeroRule, Tally& tally) const {
    const Word weights[4] = {raw.weights.x, raw.weights.y, raw.weights.z, raw.weights.w};
    return mxfp4_block(weights, static_cast<std::uint8_t>(raw.scale), tally);
  }
};

struct Nvfp4Source {
  static constexpr int kThreadBlocks = 4;
  Nvfp4Slice slice;
  Nvfp4Tensor tensor;
  struct Shared {
    IndexMap maps[kMaps];
  };
  using Raw = Raw4;
  __device__ void prepare(Shared& shared, Origin) const {
    for (unsigned i = threadIdx.x; i < kMaps; i += kWarps * kLanes) shared.maps[i] = tensor.maps[i];
  }
  __device__ Place place(Origin lane) const {
    return {slice.weight + lane.row * slice.weight_stride + lane.col / 2,
            slice.scale + lane.row * slice.scale_stride + lane.col / kNvfp4Group};
  }
  __device__ Raw load(const Place& place, unsigned step) const {
    return {*reinterpret_cast<const uint4*>(place.weights + step * (kStepCols / 2)),
            *reinterpret_cast<const std::uint16_t*>(place.scales + step * (kStepCols / kNvfp4Group))};
  }
  __device__ Block block(const Raw& raw, const Shared& shared, Origin, unsigned, ZeroRule zeros,
                         Tally& tally) const {
    const Word weights[4] = {raw.weights.x, raw.weights.y, raw.weights.z, raw.weights.w};
    tally.bad |= tensor.bad;
    return nvfp4_block(weights, raw.scale, tensor.factor, tensor.up, shared.maps, zeros, tally);
  }
};

__device__ Place place_fp8(const Fp8Slice& slice, Origin lane) {
  return {slice.weight + lane.row * slice.weight_stride + lane.col, nullptr};
}
__device__ Raw8 load_fp8(const Place& place, unsigned step) {
  const auto* from = reinterpret_cast<const uint4*>(place.weights + step * kStepCols);
  return {{from[0], from[1]}};
}
__device__ Word fp8_scale_bits(const Fp8Slice& slice, std::uint64_t block_row, std::uint64_t block_col) {
  const std::uint8_t* row = slice.scale + block_row * slice.scale_stride;
  return format::scale_bits(slice.scale_type, row + block_col * format::scale_size(slice.scale_type));
}
__device__ bool fp8_scale_finite(const Fp8Slice& slice, Word bits) {
  return format::scale_is_finite(slice.scale_type, bits);
}

// Scale blocks of whole panels and 32 * 2^n columns: a segment is in one of them, or has its own few.
struct Fp8Source {
  static constexpr int kThreadBlocks = 4;
  Fp8Slice slice;
  unsigned log2_block_cols;
  struct Shared {
    Fp8Scale scales[kSegmentCols / kScaleCols];
  };
  using Raw = Raw8;
  __device__ void prepare(Shared& shared, Origin segment) const {
    const std::uint64_t first = segment.col >> log2_block_cols;
    const std::uint64_t last = (min(segment.col + kSegmentCols, slice.cols) - 1) >> log2_block_cols;
    const std::uint64_t block_row = static_cast<std::uint32_t>(segment.row) / slice.block_rows;
    for (std::uint64_t i = threadIdx.x; first + i <= last; i += kWarps * kLanes) {
      const Word bits = fp8_scale_bits(slice, block_row, first + i);
      const Factor factor = slice.scale_type == ScaleType::e8m0
                                ? factor_of_e8m0(static_cast<std::uint8_t>(bits))
                                : factor_of_f32(bits);
      shared.scales[i] = fp8_scale(factor, fp8_scale_finite(slice, bits));
    }
  }
  __device__ Place place(Origin lane) const { return place_fp8(slice, lane); }
  __device__ Raw load(const Place& place, unsigned step) const { return load_fp8(place, step); }
  __device__ Block block(const Raw& raw, const Shared& shared, Origin lane, unsigned step, ZeroRule zeros,
                         Tally& tally) const {
    const uint4 &a = raw.weights[0], &b = raw.weights[1];
    const Word words[8] = {a.x, a.y, a.z, a.w, b.x, b.y, b.z, b.w};
    const unsigned col = static_cast<unsigned>(lane.col) % kSegmentCols + step * kStepCols;
    return fp8_block(words, shared.scales[col >> log2_block_cols], zeros, tally);
  }
};

// Scale blocks of any other shape.
struct AnyFp8Source {
  static constexpr int kThreadBlocks = 1;
  Fp8Slice slice;
  using Shared = NothingShared;
  using Raw = Raw8;
  __device__ void prepare(Shared&, Origin) const {}
  __device__ Place place(Origin lane) const { return place_fp8(slice, lane); }
  __device__ Raw load(const Place& place, unsigned step) const { return load_fp8(place, step); }
  __device__ Block block(const Raw& raw, const Shared&, Origin lane, unsigned step, ZeroRule zeros,
                         Tally& tally) const {
    std::uint8_t bytes[kScaleCols];
    std::memcpy(bytes, raw.weights, sizeof bytes);
    const auto factor_at = [&](unsigned c) {
      const std::uint64_t col = lane.col + step * kStepCols + c;
      const Word bits = fp8_scale_bits(slice, lane.row / slice.block_rows, col / slice.block_cols);
      tally.bad |= !fp8_scale_finite(slice, bits);
      return format::scale_value(slice.scale_type, bits);
    };
    return fp8_any_block(bytes, factor_at, zeros, tally);
  }
};

// Transposes 4 x 4 words over four neighbouring lanes: lane t ends with word t of each of them.
__device__ void transpose(Word words[4], unsigned t) {
#pragma unroll
  for (unsigned step = 1; step <= 2; ++step)
#pragma unroll
    for (unsigned i = 0; i < 4; ++i) {
      if (i & step) continue;
      const unsigned j = i | step;
      const bool high = t & step;
      const Word received = __shfl_xor_sync(kAllLanes, high ? words[i] : words[j], step);
      words[i] = high ? received : words[i];
      words[j] = high ? words[j] : received;
    }
}

// What a lane writes of its first tile; null where not wanted. Tiles follow each other.
__device__ PlaneTarget place_planes(const PlaneTarget& target, std::uint64_t tile, unsigned lane) {
  PlaneTarget at;
  const unsigned row = lane % 4 / 2 * 8 + lane / 4, half = lane % 2;
  if (target.codes != nullptr) at.codes = target.codes + tile * format::kCodeTile + lane * 8;
  if (target.nibbles != nullptr) at.nibbles = target.nibbles + tile * format::kNibbleTile + lane * 16;
  if (target.quintals != nullptr) at.quintals = target.quintals + tile * format::kQuintalTile;
  if (target.scales != nullptr) at.scales = target.scales + (tile * 2 + half) * kTileRows + row;
  return at;
}

// A tile out of the blocks of a warp's lanes.
__device__ void store(const Block& block, const PlaneTarget& at, unsigned step, unsigned lane) {
  if (at.scales != nullptr) at.scales[step * (kStepTiles * 2 * kTileRows)] = block.scale;
  // Quads t of the block's left and right half go to lane t, which gets two from each of the four blocks, in
  // order.
  const Word* in = block.nibbles;
  Word out[4] = {pick_bytes(in[0], in[2], 0x5410), pick_bytes(in[0], in[2], 0x7632),
                 pick_bytes(in[1], in[3], 0x5410), pick_bytes(in[1], in[3], 0x7632)};
  transpose(out, lane % 4);
  if (at.nibbles != nullptr)
    *reinterpret_cast<uint4*>(at.nibbles + step * (kStepTiles * format::kNibbleTile)) =
        make_uint4(out[0], out[1], out[2], out[3]);
  if (at.codes != nullptr)
    *reinterpret_cast<uint2*>(at.codes + step * (kStepTiles * format::kCodeTile)) =
        make_uint2(codes_of(out[0], out[1]), codes_of(out[2], out[3]));
  if (at.quintals != nullptr) {
    const Word a = quintals_of(out[0]), b = quintals_of(out[1]), c = quintals_of(out[2]),
               d = quintals_of(out[3]);
    std::uint8_t* const tile = at.quintals + step * (kStepTiles * format::kQuintalTile);
    *reinterpret_cast<uint2*>(tile + format::quintal_record_offset(lane, 0)) =
        make_uint2(a | b << 20, b >> 12 | c << 8 | d << 28);
    *reinterpret_cast<std::uint16_t*>(tile + format::quintal_record_offset(lane, 8)) =
        static_cast<std::uint16_t>(d >> 4);
  }
}

// Adds up what a thread block's lanes found out. Called by all of its threads.
__device__ void add(const Tally& tally, bool count, Report* report) {
  if (__syncthreads_or(tally.bad) != 0 && threadIdx.x == 0) report->bad = 1;
  if (!count) return;
  __shared__ unsigned zeros[kWarps], negative[kWarps];
  const unsigned lane = threadIdx.x % kLanes, warp = threadIdx.x / kLanes;
  const unsigned warp_zeros = __reduce_add_sync(kAllLanes, tally.zeros);
  const unsigned warp_negative = __reduce_add_sync(kAllLanes, tally.negative);
  if (lane == 0) {
    zeros[warp] = warp_zeros;
    negative[warp] = warp_negative;
  }
  __syncthreads();
  if (warp != 0) return;
  const auto add_to = [&](std::uint64_t& counter, const unsigned of_warp[kWarps]) {
    static_assert(sizeof counter == sizeof(unsigned long long));
    const unsigned sum = __reduce_add_sync(kAllLanes, lane < kWarps ? of_warp[lane] : 0);
    if (lane == 0 && sum != 0) atomicAdd(reinterpret_cast<unsigned long long*>(&counter), sum);
  };
  add_to(report->zeros.zeros, zeros);
  add_to(report->zeros.negative, negative);
}

template <typename Source>
__global__ void __launch_bounds__(kWarps* kLanes, Source::kThreadBlocks)
    convert_segment(const __grid_constant__ Source source, ZeroRule zeros, PlaneTarget target,
                    Report* report) {
  const std::uint64_t panel = std::uint64_t{blockIdx.z} * gridDim.y + blockIdx.y;
  if (panel >= source.slice.rows / kTileRows) return;
  const unsigned lane = threadIdx.x % kLanes, warp = threadIdx.x / kLanes;
  const std::uint64_t tiles = source.slice.cols / kTileCols,
                      first = std::uint64_t{blockIdx.x} * kSegmentTiles;
  const Origin segment{panel * kTileRows, first * kTileCols};
  const Origin origin{segment.row + lane % 4 / 2 * 8 + lane / 4,
                      (first + warp) * kTileCols + lane % 2 * kScaleCols};
  const std::uint64_t left = tiles - first + kStepTiles - 1 - warp;
  const unsigned steps = static_cast<unsigned>(min(left / kStepTiles, std::uint64_t{kSteps}));

  __shared__ typename Source::Shared shared;
  const Place from = source.place(origin);
  const PlaneTarget to = place_planes(target, panel * tiles + first + warp, lane);
  typename Source::Raw next{};
  if (steps > 0) next = source.load(from, 0);
  source.prepare(shared, segment);
  __syncthreads();
  Tally tally;
#pragma unroll 1
  for (unsigned step = 0; step < steps; ++step) {
    const typename Source::Raw raw = next;
    if (step + 1 < steps) next = source.load(from, step + 1);
    store(source.block(raw, shared, origin, step, zeros, tally), to, step, lane);
  }
  add(tally, zeros.count, report);
}

template <typename Source>
void launch(const Source& source, ZeroRule zeros, const PlaneTarget& target, Report* report,
            cudaStream_t stream) {
  constexpr std::uint64_t kMostInY = 65535;
  const std::uint64_t panels = source.slice.rows / kTileRows;
  const std::uint64_t segments = (source.slice.cols + kSegmentCols - 1) / kSegmentCols;
  if (panels == 0 || segments == 0) return;
  const std::uint64_t height = panels < kMostInY ? panels : kMostInY;
  const dim3 grid(static_cast<unsigned>(segments), static_cast<unsigned>(height),
                  static_cast<unsigned>((panels + height - 1) / height));
  convert_segment<<<grid, kWarps * kLanes, 0, stream>>>(source, zeros, target, report);
}

}  // namespace

void convert(const Mxfp4Slice& slice, ZeroRule, const PlaneTarget& target, Report* report,
             cudaStream_t stream) {
  launch(Mxfp4Source{slice}, {}, target, report, stream);
}

void convert(const Fp8Slice& slice, ZeroRule zeros, const PlaneTarget& target, Report* report,
             cudaStream_t stream) {
  if (slice.block_rows % kTileRows == 0 && slice.block_cols >= kScaleCols &&
      std::has_single_bit(slice.block_cols))
    launch(Fp8Source{slice, static_cast<unsigned>(std::countr_zero(slice.block_cols))}, zeros, target, report,
           stream);
  else
    launch(AnyFp8Source{slice}, zeros, target, report, stream);
}

void convert(const Nvfp4Slice& slice, ZeroRule zeros, const PlaneTarget& target, Report* report,
             cudaStream_t stream) {
  launch(Nvfp4Source{slice, nvfp4_tensor(std::bit_cast<Word>(slice.scale_2))}, zeros, target, report, stream);
}

cudaError_t supported() {
  cudaFuncAttributes attributes;
  return cudaFuncGetAttributes(&attributes, convert_segment<Mxfp4Source>);
}

}  // namespace planesmith::cuda
