#include <stdlib.h>

#include <new>

#include "base/size.h"
#include "format/planes.h"
#include "quant/backend.h"

namespace planesmith {
namespace {

using format::Section;

class PlainBuffer : public Buffer {
 public:
  explicit PlainBuffer(std::size_t bytes) {
    // Whole huge pages where the size allows: fewer TLB misses on the planes' scattered rows.
    const std::size_t alignment = bytes >= 2 * kMiB ? 2 * kMiB : 4 * kKiB;
    void* memory = nullptr;
    if (posix_memalign(&memory, alignment, std::max<std::size_t>(bytes, 1)) != 0) throw std::bad_alloc();
    bytes_ = {static_cast<std::uint8_t*>(memory), bytes};
  }
  ~PlainBuffer() override { free(bytes_.data()); }
};

// The targets of a matrix whose first rows are already done: w3's panels follow w1's.
PlaneTarget after(PlaneTarget target, std::uint64_t rows, std::uint64_t cols) {
  const auto advance = [](std::uint8_t*& at, std::uint64_t bytes) {
    if (at != nullptr) at += bytes;
  };
  advance(target.codes, format::code_bytes(rows, cols));
  advance(target.nibbles, format::nibble_bytes(rows, cols));
  advance(target.quintals, format::quintal_bytes(rows, cols));
  advance(target.scales, format::scale_bytes(rows, cols));
  return target;
}

struct Run {
  const Kernels& kernels;
  const PlaneTarget& target;
  ZeroSigns zeros;
  bool operator()(const Mxfp4Slice& slice) const { return kernels.mxfp4(slice, target); }
  bool operator()(const Fp8Slice& slice) const { return kernels.fp8(slice, zeros, target); }
  bool operator()(const Nvfp4Slice& slice) const { return kernels.nvfp4(slice, zeros, target); }
};

struct CountZeros {
  const Kernels& kernels;
  ZeroCount operator()(const Mxfp4Slice&) const { return {}; }
  ZeroCount operator()(const Fp8Slice& slice) const { return kernels.fp8_zeros(slice); }
  ZeroCount operator()(const Nvfp4Slice& slice) const { return kernels.nvfp4_zeros(slice); }
};

class CpuConverter : public Converter {
 public:
  explicit CpuConverter(const Kernels& kernels) : kernels_(kernels) {}

  std::optional<BadElement> convert(const ExpertSlices& expert, format::ZeroMode mode,
                                    const SectionTargets& targets) override {
    const auto at = [&](Section section) { return targets[static_cast<std::size_t>(section)]; };
    const PlaneTarget first{at(Section::planes13), at(Section::fp13), at(Section::fpq13), at(Section::sc13)};
    const PlaneTarget second{at(Section::planes2), at(Section::fp2), at(Section::fpq2), at(Section::sc2)};
    if (auto bad = convert_matrix(expert, {Projection::w1, Projection::w3}, mode, first)) return bad;
    return convert_matrix(expert, {Projection::w2}, mode, second);
  }

 private:
  std::optional<BadElement> convert_matrix(const ExpertSlices& expert, std::initializer_list<Projection> projections,
                                           format::ZeroMode mode, PlaneTarget target) const {
    if (!target.codes && !target.nibbles && !target.quintals && !target.scales) return std::nullopt;
    const ZeroSigns zeros = zero_signs(expert, projections, mode);
    for (const Projection projection : projections) {
      const Slice& slice = expert[static_cast<std::size_t>(projection)];
      if (!std::visit(Run{kernels_, target, zeros}, slice))
        return BadElement{projection, std::visit([](const auto& s) { return find_nonfinite(s); }, slice)};
      std::visit([&](const auto& s) { target = after(target, s.rows, s.cols); }, slice);
    }
    return std::nullopt;
  }

  ZeroSigns zero_signs(const ExpertSlices& expert, std::initializer_list<Projection> projections,
                       format::ZeroMode mode) const {
    if (mode == format::ZeroMode::sign) return ZeroSigns::keep;
    if (mode == format::ZeroMode::alt) return ZeroSigns::alternate;
    ZeroCount count;
    for (const Projection projection : projections)
      count += std::visit(CountZeros{kernels_}, expert[static_cast<std::size_t>(projection)]);
    return one_signed(count) ? ZeroSigns::alternate : ZeroSigns::keep;
  }

  const Kernels& kernels_;
};

class CpuBackend : public Backend {
 public:
  explicit CpuBackend(const Kernels& kernels) : kernels_(kernels) {}
  std::string describe() const override { return "cpu (" + std::string(kernels_.name) + ")"; }
  std::unique_ptr<Converter> make_converter(int) override { return std::make_unique<CpuConverter>(kernels_); }
  std::unique_ptr<Buffer> allocate(std::size_t bytes) override { return std::make_unique<PlainBuffer>(bytes); }
  int workers(int threads) const override { return threads; }

 private:
  const Kernels& kernels_;
};

}  // namespace

std::unique_ptr<Backend> make_cpu_backend(const Kernels& kernels) { return std::make_unique<CpuBackend>(kernels); }

}  // namespace planesmith
