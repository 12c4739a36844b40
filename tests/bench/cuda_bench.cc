// The GPU: kernels against the device's own copying, and whole experts, from page-locked memory and back,
// against the bus.
#include <cuda_runtime.h>
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <memory>
#include <vector>

#include "base/error.h"
#include "base/parallel.h"
#include "bench/bench.h"
#include "format/planes.h"
#include "quant/backend.h"
#include "quant/cuda/convert.h"

namespace planesmith::bench {
namespace {

using cuda::ZeroRule;

void check(cudaError_t error) {
  if (error != cudaSuccess) throw Error(cudaGetErrorString(error));
}

enum class Family { mxfp4, fp8, nvfp4 };
struct Case {
  const char* name;
  Family family;
  std::uint64_t hidden, intermediate;  // of a model that has it
  double kernel_target;
};
constexpr Case kCases[] = {
    {"mxfp4", Family::mxfp4, 4096, 2048, .6},
    {"fp8", Family::fp8, 6144, 2048, .4},
    {"nvfp4", Family::nvfp4, 6144, 2048, .4},
};

std::uint64_t weight_bytes(Family family, std::uint64_t elements) {
  return family == Family::fp8 ? elements : elements / 2;
}
std::uint64_t scale_bytes(Family family, std::uint64_t elements) {
  if (family == Family::fp8) return elements / (128 * 128) * 4;
  return elements / (family == Family::mxfp4 ? 32 : 16);
}

// Random weights without NaN, and scales of usual size.
void fill(Family family, std::uint8_t* weights, std::uint8_t* scales, std::uint64_t elements) {
  std::uint64_t state = 1;
  const auto random = [&] {
    state = state * 6364136223846793005 + 1442695040888963407;
    return static_cast<std::uint32_t>(state >> 33);
  };
  for (std::uint64_t i = 0; i < weight_bytes(family, elements); i += 4) {
    std::uint32_t word = random() ^ random() << 16;
    if (family == Family::fp8)
      for (int b = 0; b < 4; ++b)
        if ((word >> 8 * b & 0x7F) == 0x7F) word ^= 1u << 8 * b;
    std::memcpy(weights + i, &word, 4);
  }
  const std::uint64_t n = scale_bytes(family, elements);
  for (std::uint64_t i = 0; i < n; i += 4) {
    const float block = 1e-3f * static_cast<float>(1 + random() % 1000);
    const std::uint32_t bytes = 0x50505050u + (random() & 0x1F1F1F1Fu);
    std::memcpy(scales + i, family == Family::fp8 ? static_cast<const void*>(&block) : &bytes, 4);
  }
}

Slice slice_of(Family family, std::uint64_t rows, std::uint64_t cols, const std::uint8_t* weights,
               const std::uint8_t* scales) {
  if (family == Family::mxfp4) return Mxfp4Slice{rows, cols, weights, cols / 2, scales, cols / 32};
  if (family == Family::fp8)
    return Fp8Slice{rows, cols, weights, cols, scales, cols / 128 * 4, 128, 128, ScaleType::f32};
  return Nvfp4Slice{rows, cols, weights, cols / 2, scales, cols / 16, 0.0013f};
}

// --- kernels ---

class DeviceBuffer {
 public:
  explicit DeviceBuffer(std::uint64_t bytes) { check(cudaMalloc(&data_, bytes)); }
  DeviceBuffer(const DeviceBuffer&) = delete;
  ~DeviceBuffer() { cudaFree(data_); }
  std::uint8_t* data() const { return data_; }

 private:
  std::uint8_t* data_ = nullptr;
};

template <typename Enqueue>
double timed(const Enqueue& enqueue) {
  cudaEvent_t begin, end;
  check(cudaEventCreate(&begin));
  check(cudaEventCreate(&end));
  check(cudaEventRecord(begin));
  enqueue();
  check(cudaEventRecord(end));
  check(cudaEventSynchronize(end));
  float milliseconds;
  check(cudaEventElapsedTime(&milliseconds, begin, end));
  check(cudaEventDestroy(begin));
  check(cudaEventDestroy(end));
  return milliseconds * 1e-3;
}

// One launch over as many rows as 64 experts' w1 have: data many times the device's caches.
void measure_kernel(Runner& runner, const Case& c, const std::string& what, ZeroRule zeros, bool quintals,
                    double target) {
  const std::string name = fmt::format("cuda kernel {}, {}", c.name, what);
  if (!runner.wants(name)) return;
  constexpr std::uint64_t kExperts = 64;
  const std::uint64_t rows = kExperts * c.intermediate, cols = c.hidden, elements = rows * cols;
  const std::uint64_t weights = weight_bytes(c.family, elements), scales = scale_bytes(c.family, elements);
  const std::uint64_t fp4 = quintals ? format::quintal_bytes(rows, cols) : format::nibble_bytes(rows, cols);
  const std::uint64_t bytes =
      weights + scales + format::code_bytes(rows, cols) + fp4 + format::scale_bytes(rows, cols);
  std::vector<std::uint8_t> host(weights + scales);
  fill(c.family, host.data(), host.data() + weights, elements);
  const DeviceBuffer in(weights), in_scales(scales), codes(format::code_bytes(rows, cols)), planes(fp4),
      out_scales(format::scale_bytes(rows, cols)), report(sizeof(cuda::Report)), from(bytes / 2),
      to(bytes / 2);
  check(cudaMemcpy(in.data(), host.data(), weights, cudaMemcpyHostToDevice));
  check(cudaMemcpy(in_scales.data(), host.data() + weights, scales, cudaMemcpyHostToDevice));
  check(cudaMemset(report.data(), 0, sizeof(cuda::Report)));
  check(cudaMemcpy(from.data(), host.data(), std::min<std::uint64_t>(bytes / 2, host.size()),
                   cudaMemcpyHostToDevice));
  PlaneTarget target_planes;
  target_planes.codes = codes.data();
  (quintals ? target_planes.quintals : target_planes.nibbles) = planes.data();
  target_planes.scales = out_scales.data();
  const Slice slice = slice_of(c.family, rows, cols, in.data(), in_scales.data());
  runner.compare(
      name, bytes, target,
      [&] {
        return timed([&] {
          std::visit(
              [&](const auto& s) {
                cuda::convert(s, zeros, target_planes, reinterpret_cast<cuda::Report*>(report.data()),
                              nullptr);
              },
              slice);
          check(cudaGetLastError());
        });
      },
      [&] {
        return timed(
            [&] { check(cudaMemcpyAsync(to.data(), from.data(), bytes / 2, cudaMemcpyDeviceToDevice)); });
      },
      31);
}

// --- end to end ---

double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

PlaneSet six_parts() {
  PlaneSet set;
  set[Plane::codes] = set[Plane::nibbles] = set[Plane::scales] = true;
  return set;
}

// A worker's expert in page-locked memory, cut into slices as a build cuts it, with all parts of the default
// cache.
struct Worker {
  std::unique_ptr<Buffer> in, out;
  std::unique_ptr<Converter> converter;
  std::vector<Slice> slices;
  std::vector<Bytes> planes;  // of each slice
};

Worker make_worker(Backend& backend, const Case& c, int number) {
  const std::uint64_t elements = c.hidden * c.intermediate;
  const std::uint64_t weights = weight_bytes(c.family, elements), scales = scale_bytes(c.family, elements);
  Worker worker{backend.allocate(3 * (weights + scales)),
                backend.allocate(3 * (elements / 4 + elements / 2 + elements / 32)),
                backend.make_converter(number),
                {},
                {}};
  std::uint8_t *at = worker.in->bytes().data(), *to = worker.out->bytes().data();
  for (int p = 0; p < 3; ++p, at += weights + scales) {
    const bool down = p == 2;
    fill(c.family, at, at + weights, elements);
    const std::uint64_t rows = down ? c.hidden : c.intermediate, cols = down ? c.intermediate : c.hidden;
    const std::uint64_t of_slice = backend.pieces().bytes / weight_bytes(c.family, cols) / 128 * 128;
    for (std::uint64_t row = 0; row < rows; row += of_slice) {
      worker.slices.push_back(slice_of(c.family, std::min(of_slice, rows - row), cols,
                                       at + weight_bytes(c.family, row * cols),
                                       at + weights + scale_bytes(c.family, row * cols)));
      worker.planes.emplace_back(to, PlaneLayout(six_parts(), worker.slices.back()).bytes());
      to += worker.planes.back().size();
    }
  }
  return worker;
}

// Moves each worker's bytes over the bus, over and over, and nothing else.
class Bus {
 public:
  Bus(const std::vector<Worker>& workers, std::uint64_t in_bytes, std::uint64_t out_bytes)
      : workers_(workers),
        in_bytes_(in_bytes),
        out_bytes_(out_bytes),
        device_(std::max(in_bytes, out_bytes)),
        other_(out_bytes) {
    for (cudaStream_t& stream : streams_) check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  }
  ~Bus() {
    for (const cudaStream_t stream : streams_) cudaStreamDestroy(stream);
  }
  double move(int experts, bool up, bool down) const {
    const auto start = std::chrono::steady_clock::now();
    for (int i = 0; i < experts; ++i) {
      const Worker& worker = workers_[static_cast<std::size_t>(i) % workers_.size()];
      if (up)
        check(cudaMemcpyAsync(device_.data(), worker.in->bytes().data(), in_bytes_, cudaMemcpyHostToDevice,
                              streams_[0]));
      if (down)
        check(cudaMemcpyAsync(worker.out->bytes().data(), other_.data(), out_bytes_, cudaMemcpyDeviceToHost,
                              streams_[1]));
    }
    for (const cudaStream_t stream : streams_) check(cudaStreamSynchronize(stream));
    return seconds_since(start);
  }

 private:
  const std::vector<Worker>& workers_;
  std::uint64_t in_bytes_, out_bytes_;
  DeviceBuffer device_, other_;
  cudaStream_t streams_[2] = {};
};

std::vector<Worker> make_workers(Backend& backend, const Case& c, int workers) {
  std::vector<Worker> all;
  for (int worker = 0; worker < workers; ++worker) all.push_back(make_worker(backend, c, worker));
  return all;
}

double convert(const Backend& backend, const std::vector<Worker>& workers, int experts) {
  const std::size_t in_flight = backend.pieces().in_flight;
  const auto start = std::chrono::steady_clock::now();
  parallel_for(
      static_cast<std::size_t>(experts), static_cast<int>(workers.size()), [&](std::size_t, int number) {
        const Worker& worker = workers[static_cast<std::size_t>(number)];
        const auto finish = [&] {
          if (!worker.converter->finish().finite) throw Error("the benchmark's data is not finite");
        };
        for (std::size_t s = 0; s < worker.slices.size(); ++s) {
          if (s >= in_flight) finish();
          worker.converter->start(worker.slices[s], ZeroSigns::keep, true, six_parts(), worker.planes[s]);
        }
        for (std::size_t s = 0; s < std::min(in_flight, worker.slices.size()); ++s) finish();
      });
  return seconds_since(start);
}

constexpr int kExperts = 96;

void measure_experts(Runner& runner, Backend& backend, const Case& c, int workers) {
  const std::string name =
      fmt::format("cuda end to end {}, {} worker{}", c.name, workers, workers == 1 ? "" : "s");
  const std::string alone = name + ", slower way alone", both = name + ", both ways at once";
  if (!runner.wants(alone) && !runner.wants(both)) return;
  const std::vector<Worker> all = make_workers(backend, c, workers);
  const std::uint64_t in = all[0].in->bytes().size(), out = all[0].out->bytes().size();
  check(cudaSetDevice(0));
  const Bus bus(all, in, out);
  const auto work = [&] { return convert(backend, all, kExperts); };
  runner.compare(
      alone, kExperts * (in + out), workers == 1 ? 0 : .85, work,
      [&] { return std::max(bus.move(kExperts, true, false), bus.move(kExperts, false, true)); }, 9);
  runner.compare(
      both, kExperts * (in + out), 0, work, [&] { return bus.move(kExperts, true, true); }, 9);
}

// All GPUs with as many times the experts of one.
void measure_scaling(Runner& runner, Backend& one, Backend& all, const Case& c) {
  int gpus = 0;
  check(cudaGetDeviceCount(&gpus));
  const std::string name = fmt::format("cuda end to end {}, {} GPUs against 1", c.name, gpus);
  if (gpus < 2 || !runner.wants(name)) return;
  const std::vector<Worker> few = make_workers(one, c, 3), many = make_workers(all, c, 3 * gpus);
  const std::uint64_t bytes = few[0].in->bytes().size() + few[0].out->bytes().size();
  runner.compare(
      name, static_cast<std::uint64_t>(gpus * kExperts) * bytes, 0,
      [&] { return convert(all, many, gpus * kExperts); }, [&] { return convert(one, few, kExperts); }, 9);
}

}  // namespace

void cuda(Runner& runner) {
  std::string why;
  const std::unique_ptr<Backend> all = make_cuda_backend({}, why);
  if (all == nullptr) {
    fmt::print("cuda: skipped: {}\n", why);
    return;
  }
  const std::unique_ptr<Backend> backend = make_cuda_backend({0}, why);
  for (const Case& c : kCases) {
    if (c.family == Family::mxfp4) {
      measure_kernel(runner, c, "six parts", ZeroRule{}, false, c.kernel_target);
      measure_kernel(runner, c, "quintal planes", ZeroRule{}, true, c.kernel_target);
      continue;
    }
    measure_kernel(runner, c, "six parts, zeros counted", ZeroRule{true, false}, false, c.kernel_target);
    measure_kernel(runner, c, "six parts, zeros alternating", ZeroRule{false, true}, false, 0);
    measure_kernel(runner, c, "quintal planes, zeros counted", ZeroRule{true, false}, true, c.kernel_target);
  }
  for (const Case& c : kCases)
    for (const int workers : {1, 2, 4, 8}) measure_experts(runner, *backend, c, workers);
  for (const Case& c : kCases) measure_scaling(runner, *backend, *all, c);
}

}  // namespace planesmith::bench
