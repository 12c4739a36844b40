// The matrices of a call stay in device memory from the search for their largest magnitude to their
// quantization, so that their values cross the bus once. The room's two halves take turns: one is read or
// written while the other is on the bus.
#include "quant/cuda/cuda_quantizer.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <optional>
#include <vector>

#include "quant/cuda/quantize.h"

namespace planesmith::cuda {
namespace {

// One half of the room, in the hands of the device until the event has happened.
class Half {
 public:
  Half() = default;
  Half(const Half&) = delete;
  ~Half() { cudaEventDestroy(event_); }
  void make(const Gpu& gpu) {
    gpu.check(cudaEventCreateWithFlags(&event_, cudaEventDisableTiming | cudaEventBlockingSync),
              "cannot make an event");
  }
  void give(const Gpu& gpu, cudaStream_t stream) {
    gpu.check(cudaEventRecord(event_, stream), "an event failed");
  }
  void wait(const Gpu& gpu) { gpu.check(cudaEventSynchronize(event_), "a transfer failed"); }

 private:
  cudaEvent_t event_ = nullptr;
};

class CudaQuantizer : public Quantizer {
 public:
  explicit CudaQuantizer(const Gpu& gpu) : gpu_(gpu) {
    gpu_.use();
    gpu_.check(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "cannot make a stream");
    for (Half& half : halves_) half.make(gpu_);
  }
  CudaQuantizer(const CudaQuantizer&) = delete;
  ~CudaQuantizer() override { cudaStreamDestroy(stream_); }

  float quantize(Fp4 to, const FloatStream& stream, Bytes room) override {
    gpu_.use();
    try {
      return run(to, stream, room);
    } catch (...) {
      cudaStreamSynchronize(stream_);  // the room is in use until then
      throw;
    }
  }

 private:
  struct OnDevice {
    std::uint8_t *values, *nibbles, *scales;
  };

  float run(Fp4 to, const FloatStream& stream, Bytes room) {
    const std::vector<OnDevice> matrices = reserve(to, stream);
    upload(stream, matrices, room);
    for (std::size_t m = 0; m < matrices.size(); ++m) {
      max_magnitude(values_of(stream, matrices, m), most_, stream_);
      check_launch();
    }
    // Behind all uploads, so that the room is free.
    std::uint32_t most = 0;
    gpu_.check(cudaMemcpyAsync(room.data(), most_, sizeof most, cudaMemcpyDeviceToHost, stream_),
               "a download failed");
    gpu_.check(cudaStreamSynchronize(stream_), "finding the largest weight failed");
    std::copy_n(room.data(), sizeof most, reinterpret_cast<std::uint8_t*>(&most));
    const float amax = std::bit_cast<float>(most);
    if (!std::isfinite(amax)) return amax;
    for (std::size_t m = 0; m < matrices.size(); ++m) {
      cuda::quantize(to, values_of(stream, matrices, m), nvfp4_scale_2(amax), matrices[m].nibbles,
                     matrices[m].scales, stream_);
      check_launch();
    }
    download(to, stream, matrices, room);
    return amax;
  }

  void check_launch() const { gpu_.check(cudaGetLastError(), "a kernel could not be started"); }

  static FloatValues values_of(const FloatStream& stream, const std::vector<OnDevice>& matrices,
                               std::size_t m) {
    return {matrices[m].values, stream.matrices[m].type, stream.matrices[m].count};
  }

  std::vector<OnDevice> reserve(Fp4 to, const FloatStream& stream) {
    std::size_t bytes = DeviceMemory::piece(sizeof *most_);
    for (const FloatStream::Matrix& matrix : stream.matrices)
      bytes += DeviceMemory::piece(matrix.count * bytes_of(matrix.type)) +
               DeviceMemory::piece(matrix.count / 2) + DeviceMemory::piece(matrix.count / group_of(to));
    memory_.reserve(gpu_, bytes);
    most_ = reinterpret_cast<std::uint32_t*>(memory_.take(sizeof *most_));
    gpu_.check(cudaMemsetAsync(most_, 0, sizeof *most_, stream_), "clearing memory failed");
    std::vector<OnDevice> out;
    for (const FloatStream::Matrix& matrix : stream.matrices) {
      std::uint8_t* const values = memory_.take(matrix.count * bytes_of(matrix.type));
      std::uint8_t* const nibbles = memory_.take(matrix.count / 2);
      out.push_back({values, nibbles, memory_.take(matrix.count / group_of(to))});
    }
    return out;
  }

  void upload(const FloatStream& stream, const std::vector<OnDevice>& matrices, Bytes room) {
    const std::uint64_t half = room.size() / 2;
    unsigned turn = 0;
    for (std::size_t m = 0; m < matrices.size(); ++m) {
      const auto [type, count] = stream.matrices[m];
      const std::uint64_t step = half / bytes_of(type) / kPieceUnit * kPieceUnit;
      for (std::uint64_t first = 0; first < count; first += step, turn ^= 1) {
        halves_[turn].wait(gpu_);
        const Bytes piece = room.subspan(turn * half, std::min(step, count - first) * bytes_of(type));
        stream.read(m, first, piece);
        gpu_.check(cudaMemcpyAsync(matrices[m].values + first * bytes_of(type), piece.data(), piece.size(),
                                   cudaMemcpyHostToDevice, stream_),
                   "an upload failed");
        halves_[turn].give(gpu_, stream_);
      }
    }
  }

  void download(Fp4 to, const FloatStream& stream, const std::vector<OnDevice>& matrices, Bytes room) {
    struct Piece {
      std::size_t matrix;
      std::uint64_t first;
      Bytes nibbles, scales;
    };
    const std::uint64_t half = room.size() / 2, group = group_of(to);
    // Of a group: half a byte a value, and one for the scale.
    const std::uint64_t step = half / (group / 2 + 1) * group / kPieceUnit * kPieceUnit;
    std::optional<Piece> in_flight;
    unsigned turn = 0;
    const auto write = [&] {  // what the other half gets
      if (!in_flight) return;
      halves_[turn ^ 1].wait(gpu_);
      stream.write(in_flight->matrix, in_flight->first, in_flight->nibbles, in_flight->scales);
    };
    const auto fetch = [&](Bytes piece, const std::uint8_t* from) {
      gpu_.check(cudaMemcpyAsync(piece.data(), from, piece.size(), cudaMemcpyDeviceToHost, stream_),
                 "a download failed");
    };
    for (std::size_t m = 0; m < matrices.size(); ++m) {
      const std::uint64_t count = stream.matrices[m].count;
      for (std::uint64_t first = 0; first < count; first += step, turn ^= 1) {
        const std::uint64_t n = std::min(step, count - first);
        const Piece next{m, first, room.subspan(turn * half, n / 2),
                         room.subspan(turn * half + n / 2, n / group)};
        fetch(next.nibbles, matrices[m].nibbles + first / 2);
        fetch(next.scales, matrices[m].scales + first / group);
        halves_[turn].give(gpu_, stream_);
        write();
        in_flight = next;
      }
    }
    write();
  }

  const Gpu gpu_;
  Half halves_[2];
  DeviceMemory memory_;
  cudaStream_t stream_ = nullptr;
  std::uint32_t* most_ = nullptr;
};

}  // namespace

std::unique_ptr<Quantizer> make_quantizer(const Gpu& gpu) {
  return std::make_unique<CudaQuantizer>(gpu);
}

}  // namespace planesmith::cuda
