// Slices on GPUs. A converter owns a stream and device memory for each slice in flight: it uploads the slice,
// runs the kernel and downloads the planes. Copies and kernels of streams overlap, so that a few converters
// keep the bus busy in both directions while their threads read, hash and write.
#include <cuda_runtime.h>
#include <fmt/format.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "base/error.h"
#include "base/size.h"
#include "quant/backend.h"
#include "quant/cuda/convert.h"
#include "quant/cuda/cuda_quantizer.h"

namespace planesmith {
namespace {

using cuda::DeviceMemory;
using cuda::Gpu;
using cuda::reason;
using cuda::Report;

// Large ones are made of huge pages: there are 512 times fewer of them to lock, which is most of what a start
// takes.
class PinnedBuffer : public Buffer {
 public:
  explicit PinnedBuffer(std::size_t bytes) {
    constexpr std::size_t kHuge = 2 * kMiB;
    void* memory = nullptr;
    if (bytes >= kHuge && posix_memalign(&memory, kHuge, round_up(bytes, kHuge)) == 0) {
      madvise(memory, round_up(bytes, kHuge), MADV_HUGEPAGE);
      registered_ = cudaHostRegister(memory, round_up(bytes, kHuge), cudaHostRegisterPortable) == cudaSuccess;
      if (!registered_) {
        cudaGetLastError();
        free(memory);
      }
    }
    if (!registered_) {
      const cudaError_t error =
          cudaHostAlloc(&memory, std::max<std::size_t>(bytes, 1), cudaHostAllocPortable);
      if (error != cudaSuccess)
        throw Error(fmt::format(
            "cannot page-lock {} of memory for the GPU: {}; use a smaller --memory or --backend cpu",
            short_size(bytes), reason(error)));
    }
    bytes_ = {static_cast<std::uint8_t*>(memory), bytes};
  }
  ~PinnedBuffer() override {
    if (!registered_) {
      cudaFreeHost(bytes_.data());
      return;
    }
    cudaHostUnregister(bytes_.data());
    free(bytes_.data());
  }

 private:
  bool registered_ = false;
};

struct Extent {
  std::uint64_t row_bytes, rows;
  std::uint64_t bytes() const { return row_bytes * rows; }
};

// One slice at a time, on a stream of its own.
class SliceConverter {
 public:
  explicit SliceConverter(const Gpu& gpu) : gpu_(gpu), report_(sizeof(Report)) {
    gpu_.check(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "cannot make a stream");
  }
  SliceConverter(const SliceConverter&) = delete;
  ~SliceConverter() {
    cudaStreamSynchronize(stream_);
    cudaStreamDestroy(stream_);
  }

  // Enqueues everything. Until finish() the caller's memory is in use.
  void start(const Slice& slice, cuda::ZeroRule zeros, const PlaneSet& wanted, Bytes planes) {
    slice_ = slice;
    try {
      std::visit([&](const auto& s) { enqueue(s, zeros, PlaneLayout(wanted, slice), planes); }, slice);
    } catch (...) {
      cudaStreamSynchronize(stream_);  // the one that catches this may free the memory in use
      throw;
    }
  }

  Converter::Converted finish() {
    gpu_.check(cudaStreamSynchronize(stream_), "a conversion failed");
    const Report& report = *reinterpret_cast<const Report*>(report_.bytes().data());
    if (report.bad != 0) refuse_phantom();
    return {report.bad == 0, report.zeros};
  }

 private:
  template <typename AnySlice>
  void enqueue(const AnySlice& slice, cuda::ZeroRule zeros, const PlaneLayout& layout, Bytes planes) {
    const Extent weights{slice.weight_row_bytes(), slice.rows};
    const Extent scales{slice.scale_row_bytes(), slice.scale_rows()};
    memory_.reserve(gpu_, DeviceMemory::piece(sizeof(Report)) + DeviceMemory::piece(weights.bytes()) +
                              DeviceMemory::piece(scales.bytes()) + DeviceMemory::piece(layout.bytes()));
    auto* const report = reinterpret_cast<Report*>(memory_.take(sizeof(Report)));
    gpu_.check(cudaMemsetAsync(report, 0, sizeof(Report), stream_), "clearing memory failed");
    AnySlice there = slice;  // its rows packed
    there.weight = upload(slice.weight, slice.weight_stride, weights);
    there.weight_stride = weights.row_bytes;
    there.scale = upload(slice.scale, slice.scale_stride, scales);
    there.scale_stride = scales.row_bytes;
    std::uint8_t* const made = memory_.take(layout.bytes());
    cuda::convert(there, zeros, layout.target(made), report, stream_);
    gpu_.check(cudaGetLastError(), "a kernel could not be started");
    download(planes.data(), made, layout.bytes());
    download(report_.bytes().data(), reinterpret_cast<const std::uint8_t*>(report), sizeof(Report));
  }
  const std::uint8_t* upload(const std::uint8_t* from, std::uint64_t stride, const Extent& extent) {
    std::uint8_t* const to = memory_.take(extent.bytes());
    gpu_.check(stride == extent.row_bytes
                   ? cudaMemcpyAsync(to, from, extent.bytes(), cudaMemcpyHostToDevice, stream_)
                   : cudaMemcpy2DAsync(to, extent.row_bytes, from, stride, extent.row_bytes, extent.rows,
                                       cudaMemcpyHostToDevice, stream_),
               "an upload failed");
    return to;
  }
  void download(std::uint8_t* to, const std::uint8_t* from, std::size_t bytes) {
    gpu_.check(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToHost, stream_), "a download failed");
  }

  // Error: the slice that was sent has no NaN or infinity, although the device met one.
  void refuse_phantom() const {
    const auto* nvfp4 = std::get_if<Nvfp4Slice>(&slice_);
    if (!find_nonfinite(slice_).found && (nvfp4 == nullptr || std::isfinite(nvfp4->scale_2)))
      throw Error(fmt::format(
          "GPU {} ({}) met a NaN or an infinity that was not sent to it; its memory is not to be trusted",
          gpu_.device, gpu_.name));
  }

  const Gpu& gpu_;
  PinnedBuffer report_;
  DeviceMemory memory_;
  cudaStream_t stream_ = nullptr;
  Slice slice_;  // in the caller's memory
};

constexpr std::size_t kInFlight = kCudaPieces.in_flight;

class CudaConverter : public Converter {
 public:
  explicit CudaConverter(const Gpu& gpu) : gpu_(gpu) {
    gpu_.use();
    for (std::unique_ptr<SliceConverter>& each : in_turns_) each = std::make_unique<SliceConverter>(gpu_);
  }

  void start(const Slice& slice, ZeroSigns signs, bool count_zeros, const PlaneSet& wanted,
             Bytes planes) override {
    gpu_.use();
    in_turns_[started_ % kInFlight]->start(slice, {count_zeros, signs == ZeroSigns::alternate}, wanted,
                                           planes);
    ++started_;
  }
  Converted finish() override { return in_turns_[finished_++ % kInFlight]->finish(); }

 private:
  const Gpu gpu_;
  std::array<std::unique_ptr<SliceConverter>, kInFlight> in_turns_;
  std::size_t started_ = 0, finished_ = 0;
};

class CudaBackend : public Backend {
 public:
  explicit CudaBackend(std::vector<Gpu> gpus) : gpus_(std::move(gpus)) {}
  std::string describe() const override {
    std::string text = "cuda (";
    for (const Gpu& gpu : gpus_)
      text += fmt::format("{}{}: {}", &gpu == &gpus_.front() ? "" : ", ", gpu.device, gpu.name);
    return text + ")";
  }
  std::unique_ptr<Converter> make_converter(int worker) override {
    return std::make_unique<CudaConverter>(gpus_[static_cast<std::size_t>(worker) % gpus_.size()]);
  }
  std::unique_ptr<Quantizer> make_quantizer(int worker) override {
    return cuda::make_quantizer(gpus_[static_cast<std::size_t>(worker) % gpus_.size()]);
  }
  std::unique_ptr<Buffer> allocate(std::size_t bytes) override {
    return std::make_unique<PinnedBuffer>(bytes);
  }
  Pieces pieces() const override { return kCudaPieces; }

 private:
  std::vector<Gpu> gpus_;
};

// Readies a device; `why` where it cannot be used.
bool ready(Gpu& gpu, std::string& why) {
  cudaDeviceProp properties;
  cudaError_t error = cudaGetDeviceProperties(&properties, gpu.device);
  if (error == cudaSuccess) {
    gpu.name = properties.name;
    // Workers that wait for the device leave their processor to others.
    error = cudaInitDevice(gpu.device, cudaDeviceScheduleBlockingSync, cudaInitDeviceFlagsAreValid);
  }
  if (error == cudaSuccess) error = cudaSetDevice(gpu.device);
  if (error == cudaSuccess) error = cuda::supported();
  if (error == cudaSuccess) return true;
  why = fmt::format("GPU {} ({}) cannot be used: {}", gpu.device, gpu.name, reason(error));
  return false;
}

}  // namespace

bool cuda_built_in() {
  return true;
}

bool cuda_has_driver(std::string& why) {
  // Loading the driver takes 0.1 s. Its device is not everywhere where it works (WSL, Tegra), but where it is
  // there, so is the driver.
  if (access("/dev/nvidiactl", F_OK) == 0) return true;
  int driver = 0;
  if (cudaDriverGetVersion(&driver) == cudaSuccess && driver != 0) return true;
  why = "there is no NVIDIA driver on this machine";
  return false;
}

std::unique_ptr<Backend> make_cuda_backend(const std::vector<std::uint64_t>& gpus, std::string& why) {
  if (!cuda_has_driver(why)) return nullptr;
  int count = 0;
  const cudaError_t error = cudaGetDeviceCount(&count);
  if (error != cudaSuccess || count == 0) {
    why = error == cudaSuccess ? "there is no GPU" : reason(error);
    return nullptr;
  }
  std::vector<Gpu> usable;
  if (gpus.empty()) {
    for (int device = 0; device < count; ++device)
      if (Gpu gpu{device, ""}; ready(gpu, why)) usable.push_back(gpu);
  }
  for (const std::uint64_t number : gpus) {
    if (number >= static_cast<std::uint64_t>(count))
      throw Error(
          ErrorCode::usage, "",
          fmt::format("--gpus: there is no GPU {}; this machine has {}, counted from 0", number, count));
    Gpu gpu{static_cast<int>(number), ""};
    if (!ready(gpu, why)) throw Error(why);
    usable.push_back(gpu);
  }
  if (usable.empty()) return nullptr;
  return std::make_unique<CudaBackend>(std::move(usable));
}

}  // namespace planesmith
