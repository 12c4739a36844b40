#include <stdlib.h>
#include <sys/mman.h>

#include <algorithm>
#include <new>

#include "base/size.h"
#include "quant/backend.h"
#include "quant/cpu_quantizer.h"

namespace planesmith {
namespace {

class PlainBuffer : public Buffer {
 public:
  explicit PlainBuffer(std::size_t bytes) {
    // Huge pages mean fewer TLB misses.
    const std::size_t alignment = bytes >= 2 * kMiB ? 2 * kMiB : 4 * kKiB;
    void* memory = nullptr;
    if (posix_memalign(&memory, alignment, std::max<std::size_t>(bytes, 1)) != 0) throw std::bad_alloc();
    if (bytes >= 2 * kMiB) madvise(memory, bytes, MADV_HUGEPAGE);
    bytes_ = {static_cast<std::uint8_t*>(memory), bytes};
  }
  ~PlainBuffer() override { free(bytes_.data()); }
};

// Converts a slice when it is started: nothing is in flight.
class CpuConverter : public Converter {
 public:
  explicit CpuConverter(const Kernels& kernels) : kernels_(kernels) {}

  void start(const Slice& slice, ZeroSigns signs, bool count_zeros, const PlaneSet& wanted,
             Bytes planes) override {
    done_ = {};
    done_.finite = convert_slice(kernels_, slice, signs, PlaneLayout(wanted, slice).target(planes.data()),
                                 count_zeros ? &done_.zeros : nullptr);
  }
  Converted finish() override { return done_; }

 private:
  const Kernels& kernels_;
  Converted done_;
};

class CpuBackend : public Backend {
 public:
  explicit CpuBackend(const Kernels& kernels) : kernels_(kernels) {}
  std::string describe() const override { return "cpu (" + std::string(kernels_.name) + ")"; }
  std::unique_ptr<Converter> make_converter(int) override { return std::make_unique<CpuConverter>(kernels_); }
  std::unique_ptr<Quantizer> make_quantizer(int) override { return make_cpu_quantizer(kernels_); }
  std::unique_ptr<Buffer> allocate(std::size_t bytes) override {
    return std::make_unique<PlainBuffer>(bytes);
  }
  // Stays in the second-level cache, with its planes, until these are written.
  Pieces pieces() const override { return {128 * kKiB, 1}; }

 private:
  const Kernels& kernels_;
};

}  // namespace

std::unique_ptr<Backend> make_cpu_backend(const Kernels& kernels) {
  return std::make_unique<CpuBackend>(kernels);
}

}  // namespace planesmith
