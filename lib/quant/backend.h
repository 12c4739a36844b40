// What converts and quantizes experts: the CPU's kernels or GPUs. The pipeline gives a few rows of an expert
// at a time and takes their planes; each of its workers has a Converter of its own.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/file.h"
#include "base/size.h"
#include "quant/kernels.h"
#include "quant/plane_layout.h"
#include "quant/quantizer.h"

namespace planesmith {

// Converts slices in the order in which they are started.
class Converter {
 public:
  virtual ~Converter() = default;  // waits for slices that were started and not finished
  // Begins to convert a slice into the first PlaneLayout(wanted, slice).bytes() of `planes`. At most
  // Pieces::in_flight slices may be started and not finished; until then their weights, scales and planes are
  // in use. These belong to buffers of Backend::allocate(), where they are converted faster.
  // Errors: a device that fails; this slice is not in use then.
  virtual void start(const Slice& slice, ZeroSigns signs, bool count_zeros, const PlaneSet& wanted,
                     Bytes planes) = 0;
  struct Converted {
    bool finite = true;  // false: find_nonfinite() says where not; the planes are unspecified
    ZeroCount zeros;     // of the slice, if they were to be counted and its family has any to balance
  };
  // Waits for the oldest slice that is not finished. Errors: a device that fails.
  virtual Converted finish() = 0;
};

// Memory that the backend reads and writes fast (page-locked for GPUs), 4 KiB aligned.
class Buffer {
 public:
  virtual ~Buffer() = default;
  Bytes bytes() const { return bytes_; }

 protected:
  Bytes bytes_;
};

// How a backend wants its work.
struct Pieces {
  std::uint64_t bytes;    // weights that a slice should have
  std::size_t in_flight;  // slices that each worker should have started and not finished
};

class Backend {
 public:
  virtual ~Backend() = default;
  virtual std::string describe() const = 0;  // "cpu (avx512)", "2 x NVIDIA H200"
  virtual std::unique_ptr<Converter> make_converter(int worker) = 0;
  virtual std::unique_ptr<Quantizer> make_quantizer(int worker) = 0;
  virtual std::unique_ptr<Buffer> allocate(std::size_t bytes) = 0;
  virtual Pieces pieces() const = 0;
  // What a worker should use for its next expert: this backend, or what stands in for it while its devices
  // start. Called by any thread. Errors: devices that were asked for and cannot be used.
  virtual Backend& current() { return *this; }
  // Waits until the devices have started. Errors: as above.
  virtual void wait() {}
};

struct BackendChoice {
  std::string backend = "auto";     // auto, cpu, cuda
  std::string isa = "auto";         // one of kIsas
  std::vector<std::uint64_t> gpus;  // device numbers; empty: all
};
// GPUs start while the caller goes on. Errors: cuda or GPUs asked for and not built in or no driver; an ISA
// this machine lacks. Errors of current() and wait(): no device; a GPU that does not exist or cannot be used.
std::unique_ptr<Backend> make_backend(const BackendChoice& choice);

std::unique_ptr<Backend> make_cpu_backend(const Kernels& kernels);
bool cuda_built_in();
// Whether it is built in and there is a driver, without starting it; otherwise `why` not.
bool cuda_has_driver(std::string& why);
// They stay in the processor's caches, which devices read from and write to, until their planes are written.
inline constexpr Pieces kCudaPieces{kMiB, 2};
// Null with `why` set where there is no CUDA backend in this build, no driver or no device.
std::unique_ptr<Backend> make_cuda_backend(const std::vector<std::uint64_t>& gpus, std::string& why);

}  // namespace planesmith
