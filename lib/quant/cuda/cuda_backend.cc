// Experts on GPUs. A converter owns device memory for one expert and a stream for each of its two matrices:
// it uploads the slices, runs the kernels, downloads the planes and waits. Copies and kernels of streams
// overlap, so that a few converters keep the bus busy in both directions.
#include <cuda_runtime.h>
#include <fmt/format.h>
#include <stdlib.h>
#include <sys/mman.h>

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "base/size.h"
#include "format/planes.h"
#include "quant/backend.h"
#include "quant/cuda/convert.h"
#include "quant/cuda/cuda_quantizer.h"

namespace planesmith {
namespace {

using cuda::DeviceMemory;
using cuda::Gpu;
using cuda::reason;
using cuda::Report;
using cuda::ZeroPass;
using format::Section;

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
template <typename AnySlice>
Extent weight_extent(const AnySlice& s) {
  return {s.weight_row_bytes(), s.rows};
}
template <typename AnySlice>
Extent scale_extent(const AnySlice& s) {
  return {s.scale_row_bytes(), s.scale_rows()};
}

// One of an expert's two matrices: projections that stand one below the other, and what is made of them.
struct Plane {
  Section section;
  std::uint8_t* PlaneTarget::*in_target;
  std::uint64_t (*bytes)(std::uint64_t rows, std::uint64_t cols);
};
struct Matrix {
  std::vector<Projection> projections;
  std::array<Plane, 4> planes;
};
const Matrix kMatrices[] = {
    {{Projection::w1, Projection::w3},
     {{{Section::planes13, &PlaneTarget::codes, format::code_bytes},
       {Section::fp13, &PlaneTarget::nibbles, format::nibble_bytes},
       {Section::fpq13, &PlaneTarget::quintals, format::quintal_bytes},
       {Section::sc13, &PlaneTarget::scales, format::scale_bytes}}}},
    {{Projection::w2},
     {{{Section::planes2, &PlaneTarget::codes, format::code_bytes},
       {Section::fp2, &PlaneTarget::nibbles, format::nibble_bytes},
       {Section::fpq2, &PlaneTarget::quintals, format::quintal_bytes},
       {Section::sc2, &PlaneTarget::scales, format::scale_bytes}}}},
};

// How to meet a zero mode; the second pass of automatic does nothing unless the first has counted one-signed
// zeros.
std::vector<ZeroPass> passes(format::ZeroMode mode) {
  if (mode == format::ZeroMode::sign) return {ZeroPass::keep};
  if (mode == format::ZeroMode::alt) return {ZeroPass::alternate};
  return {ZeroPass::count_and_keep, ZeroPass::alternate_if_one_signed};
}

// Converts one matrix at a time, on a stream of its own.
class MatrixConverter {
 public:
  MatrixConverter(const Gpu& gpu, const Matrix& matrix)
      : gpu_(gpu), matrix_(matrix), report_(sizeof(Report)) {
    gpu_.check(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "cannot make a stream");
  }
  MatrixConverter(const MatrixConverter&) = delete;
  ~MatrixConverter() { cudaStreamDestroy(stream_); }

  // Enqueues everything, if anything of this matrix is wanted. Until wait() has returned the caller's memory
  // is in use.
  void start(const ExpertSlices& expert, format::ZeroMode mode, const SectionTargets& targets) {
    started_ = std::any_of(matrix_.planes.begin(), matrix_.planes.end(),
                           [&](const Plane& plane) { return target(targets, plane) != nullptr; });
    if (!started_) return;
    memory_.reserve(gpu_, device_bytes(expert, targets));
    auto* const report = reinterpret_cast<Report*>(memory_.take(sizeof(Report)));
    gpu_.check(cudaMemsetAsync(report, 0, sizeof(Report), stream_), "clearing memory failed");
    std::vector<Slice> slices;
    for_each_slice(expert, [&](const auto& slice) { slices.push_back(upload(slice)); });
    const auto [rows, cols] = shape(expert);
    PlaneTarget planes;
    for (const Plane& plane : matrix_.planes)
      if (target(targets, plane) != nullptr) planes.*plane.in_target = memory_.take(plane.bytes(rows, cols));
    for (const ZeroPass pass : passes(mode)) convert(slices, pass, planes, report);
    for (const Plane& plane : matrix_.planes)
      if (target(targets, plane) != nullptr)
        download(target(targets, plane), planes.*plane.in_target, plane.bytes(rows, cols));
    download(report_.bytes().data(), reinterpret_cast<const std::uint8_t*>(report), sizeof(Report));
  }

  cudaError_t wait() { return cudaStreamSynchronize(stream_); }

  // After wait(): the first element that is not finite.
  std::optional<BadElement> find_bad(const ExpertSlices& expert) const {
    if (!started_ || reinterpret_cast<const Report*>(report_.bytes().data())->bad == 0) return std::nullopt;
    for (const Projection projection : matrix_.projections) {
      const Slice& any = expert[static_cast<std::size_t>(projection)];
      const NonFinite where = std::visit([](const auto& slice) { return find_nonfinite(slice); }, any);
      const auto* nvfp4 = std::get_if<Nvfp4Slice>(&any);
      if (where.found || (nvfp4 != nullptr && !std::isfinite(nvfp4->scale_2)))
        return BadElement{projection, where};
    }
    throw Error(fmt::format(
        "GPU {} ({}) met a NaN or an infinity that was not sent to it; its memory is not to be trusted",
        gpu_.device, gpu_.name));
  }

 private:
  static std::uint8_t* target(const SectionTargets& targets, const Plane& plane) {
    return targets[static_cast<std::size_t>(plane.section)];
  }
  template <typename Use>
  void for_each_slice(const ExpertSlices& expert, const Use& use) const {
    for (const Projection projection : matrix_.projections)
      std::visit(use, expert[static_cast<std::size_t>(projection)]);
  }
  struct Shape {
    std::uint64_t rows = 0, cols = 0;
  };
  Shape shape(const ExpertSlices& expert) const {
    Shape shape;
    for_each_slice(expert, [&](const auto& slice) { shape = {shape.rows + slice.rows, slice.cols}; });
    return shape;
  }

  std::size_t device_bytes(const ExpertSlices& expert, const SectionTargets& targets) const {
    std::size_t total = DeviceMemory::piece(sizeof(Report));
    for_each_slice(expert, [&](const auto& slice) {
      total += DeviceMemory::piece(weight_extent(slice).bytes()) +
               DeviceMemory::piece(scale_extent(slice).bytes());
    });
    const auto [rows, cols] = shape(expert);
    for (const Plane& plane : matrix_.planes)
      if (target(targets, plane) != nullptr) total += DeviceMemory::piece(plane.bytes(rows, cols));
    return total;
  }

  void convert(const std::vector<Slice>& slices, ZeroPass pass, PlaneTarget planes, Report* report) {
    for (const Slice& any : slices)
      std::visit(
          [&](const auto& slice) {
            cuda::convert(slice, pass, planes, report, stream_);
            gpu_.check(cudaGetLastError(), "a kernel could not be started");
            for (const Plane& plane : matrix_.planes)
              if (planes.*plane.in_target != nullptr)
                planes.*plane.in_target += plane.bytes(slice.rows, slice.cols);
          },
          any);
  }

  // The slice in device memory, its rows packed.
  template <typename AnySlice>
  AnySlice upload(AnySlice slice) {
    slice.weight = upload(slice.weight, slice.weight_stride, weight_extent(slice));
    slice.weight_stride = weight_extent(slice).row_bytes;
    slice.scale = upload(slice.scale, slice.scale_stride, scale_extent(slice));
    slice.scale_stride = scale_extent(slice).row_bytes;
    return slice;
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

  const Gpu& gpu_;
  const Matrix& matrix_;
  PinnedBuffer report_;
  DeviceMemory memory_;
  cudaStream_t stream_ = nullptr;
  bool started_ = false;
};

class CudaConverter : public Converter {
 public:
  explicit CudaConverter(const Gpu& gpu) : gpu_(gpu) {
    gpu_.use();
    for (const Matrix& matrix : kMatrices)
      matrices_.push_back(std::make_unique<MatrixConverter>(gpu_, matrix));
  }

  std::optional<BadElement> convert(const ExpertSlices& expert, format::ZeroMode mode,
                                    const SectionTargets& targets) override {
    gpu_.use();
    try {
      for (const auto& matrix : matrices_) matrix->start(expert, mode, targets);
    } catch (...) {
      wait();  // the one that catches this may free the memory in use
      throw;
    }
    gpu_.check(wait(), "a conversion failed");
    for (const auto& matrix : matrices_)
      if (auto bad = matrix->find_bad(expert)) return bad;
    return std::nullopt;
  }

 private:
  cudaError_t wait() {
    cudaError_t first = cudaSuccess;
    for (const auto& matrix : matrices_) {
      const cudaError_t error = matrix->wait();
      if (first == cudaSuccess) first = error;
    }
    return first;
  }

  const Gpu gpu_;
  std::vector<std::unique_ptr<MatrixConverter>> matrices_;
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
  int workers(int threads) const override { return threads; }

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

std::unique_ptr<Backend> make_cuda_backend(const std::vector<std::uint64_t>& gpus, std::string& why) {
  int driver = 0, count = 0;
  if (cudaDriverGetVersion(&driver) != cudaSuccess || driver == 0) {
    why = "there is no NVIDIA driver on this machine";
    return nullptr;
  }
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
