// What converts and quantizes experts: the CPU's kernels or GPUs. The pipeline gives one expert's slices for
// one rank and takes the planes; how many experts are in flight is the number of its workers, each of which
// has a Converter of its own.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/file.h"
#include "checkpoint/model.h"
#include "format/geometry.h"
#include "quant/kernels.h"
#include "quant/quantizer.h"

namespace planesmith {

// Converts a slice by these kernels; find_nonfinite() says why where it returns false. Zeros are counted
// where `zeros` is not null.
bool convert_slice(const Kernels& kernels, const Slice& slice, ZeroSigns signs, const PlaneTarget& target,
                   ZeroCount* zeros = nullptr);
NonFinite find_nonfinite(const Slice& slice);

// The signs of one matrix's zeros (FORMAT.md section 4), expert after expert. Mode auto knows them only when
// all zeros are counted. Experts of a checkpoint are alike, so the answer for the last one is taken until the
// count says otherwise; then the matrix is converted once more.
class SignsOfZeros {
 public:
  ZeroSigns choose(format::ZeroMode mode) const;
  // Whether a matrix that was converted with choose() is right, given its zeros.
  bool settle(format::ZeroMode mode, const ZeroCount& count);

 private:
  ZeroSigns last_ = ZeroSigns::keep;
};

// One expert's part of one rank, indexed by Projection: rows of w1 and w3, columns of w2; all of one family.
using ExpertSlices = std::array<Slice, kProjections>;

// Where each section goes, indexed by format::Section, each of section_bytes(); null: not wanted.
using SectionTargets = std::array<std::uint8_t*, format::kSections>;

// A NaN or an infinity, and the projection it was found in.
struct BadElement {
  Projection projection = Projection::w1;
  NonFinite where;
};

class Converter {
 public:
  virtual ~Converter() = default;
  // Fills the targets; returns the first non-finite element where there is one (the targets' contents are
  // then unspecified). FORMAT.md section 4: the zero mode touches requantized families only, and mode auto
  // judges w1 and w3 together. Errors: a device that fails.
  virtual std::optional<BadElement> convert(const ExpertSlices& expert, format::ZeroMode mode,
                                            const SectionTargets& targets) = 0;
};

// Memory that the backend reads and writes fast (page-locked for GPUs), 4 KiB aligned.
class Buffer {
 public:
  virtual ~Buffer() = default;
  Bytes bytes() const { return bytes_; }

 protected:
  Bytes bytes_;
};

class Backend {
 public:
  virtual ~Backend() = default;
  virtual std::string describe() const = 0;  // "cpu (avx512)", "2 x NVIDIA H200"
  virtual std::unique_ptr<Converter> make_converter(int worker) = 0;
  virtual std::unique_ptr<Quantizer> make_quantizer(int worker) = 0;
  // The CPU's, for callers that convert a few rows at a time, in its caches; null: a device, best at whole
  // experts.
  virtual const Kernels* kernels() const { return nullptr; }
  virtual std::unique_ptr<Buffer> allocate(std::size_t bytes) = 0;
  // Experts that should be in flight at once to keep the backend busy, given the threads the user allows.
  virtual int workers(int threads) const = 0;
};

struct BackendChoice {
  std::string backend = "auto";     // auto, cpu, cuda
  std::string isa = "auto";         // one of kIsas
  std::vector<std::uint64_t> gpus;  // device numbers; empty: all
};
// Errors: cuda or GPUs asked for and not built in, no driver, no device; an ISA this machine lacks.
std::unique_ptr<Backend> make_backend(const BackendChoice& choice);

std::unique_ptr<Backend> make_cpu_backend(const Kernels& kernels);
bool cuda_built_in();
// Null with `why` set where there is no CUDA backend in this build, no driver or no device.
std::unique_ptr<Backend> make_cuda_backend(const std::vector<std::uint64_t>& gpus, std::string& why);

}  // namespace planesmith
