#include <stdlib.h>
#include <sys/mman.h>

#include <new>

#include "base/size.h"
#include "format/planes.h"
#include "quant/backend.h"
#include "quant/cpu_quantizer.h"

namespace planesmith {
namespace {

using format::Section;

// The planes of an expert are hashed and written right away, so they should stay in the caches.
constexpr bool kStream = false;

class PlainBuffer : public Buffer {
 public:
  explicit PlainBuffer(std::size_t bytes) {
    // Huge pages mean fewer TLB misses on the planes' scattered rows.
    const std::size_t alignment = bytes >= 2 * kMiB ? 2 * kMiB : 4 * kKiB;
    void* memory = nullptr;
    if (posix_memalign(&memory, alignment, std::max<std::size_t>(bytes, 1)) != 0) throw std::bad_alloc();
    if (bytes >= 2 * kMiB) madvise(memory, bytes, MADV_HUGEPAGE);
    bytes_ = {static_cast<std::uint8_t*>(memory), bytes};
  }
  ~PlainBuffer() override { free(bytes_.data()); }
};

// Where the next rows of the matrix go: w3's panels follow w1's.
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

class CpuConverter : public Converter {
 public:
  explicit CpuConverter(const Kernels& kernels) : kernels_(kernels) {}

  std::optional<BadElement> convert(const ExpertSlices& expert, format::ZeroMode mode,
                                    const SectionTargets& targets) override {
    const auto at = [&](Section section) { return targets[static_cast<std::size_t>(section)]; };
    const PlaneTarget first{at(Section::planes13), at(Section::fp13), at(Section::fpq13), at(Section::sc13),
                            kStream};
    const PlaneTarget second{at(Section::planes2), at(Section::fp2), at(Section::fpq2), at(Section::sc2),
                             kStream};
    if (auto bad = convert_matrix(expert, {Projection::w1, Projection::w3}, mode, first, signs13_))
      return bad;
    return convert_matrix(expert, {Projection::w2}, mode, second, signs2_);
  }

 private:
  using Projections = std::initializer_list<Projection>;

  std::optional<BadElement> convert_matrix(const ExpertSlices& expert, Projections projections,
                                           format::ZeroMode mode, const PlaneTarget& target,
                                           SignsOfZeros& signs) const {
    if (!target.codes && !target.nibbles && !target.quintals && !target.scales) return std::nullopt;
    for (;;) {
      ZeroCount count;
      if (auto bad = run(expert, projections, mode, target, signs.choose(mode), count)) return bad;
      if (signs.settle(mode, count)) return std::nullopt;
    }
  }

  std::optional<BadElement> run(const ExpertSlices& expert, Projections projections, format::ZeroMode mode,
                                PlaneTarget target, ZeroSigns signs, ZeroCount& count) const {
    ZeroCount* const zeros = mode == format::ZeroMode::automatic ? &count : nullptr;
    for (const Projection projection : projections) {
      const Slice& slice = expert[static_cast<std::size_t>(projection)];
      if (!convert_slice(kernels_, slice, signs, target, zeros))
        return BadElement{projection, find_nonfinite(slice)};
      std::visit([&](const auto& s) { target = after(target, s.rows, s.cols); }, slice);
    }
    return std::nullopt;
  }

  const Kernels& kernels_;
  SignsOfZeros signs13_, signs2_;
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
  const Kernels* kernels() const override { return &kernels_; }
  int workers(int threads) const override { return threads; }

 private:
  const Kernels& kernels_;
};

struct Run {
  const Kernels& kernels;
  const PlaneTarget& target;
  ZeroSigns signs;
  ZeroCount* zeros;
  bool operator()(const Mxfp4Slice& slice) const { return kernels.mxfp4(slice, target); }
  bool operator()(const Fp8Slice& slice) const { return kernels.fp8(slice, signs, target, zeros); }
  bool operator()(const Nvfp4Slice& slice) const { return kernels.nvfp4(slice, signs, target, zeros); }
};

}  // namespace

bool convert_slice(const Kernels& kernels, const Slice& slice, ZeroSigns signs, const PlaneTarget& target,
                   ZeroCount* zeros) {
  return std::visit(Run{kernels, target, signs, zeros}, slice);
}

NonFinite find_nonfinite(const Slice& slice) {
  return std::visit([](const auto& s) { return find_nonfinite(s); }, slice);
}

ZeroSigns SignsOfZeros::choose(format::ZeroMode mode) const {
  if (mode == format::ZeroMode::automatic) return last_;
  return mode == format::ZeroMode::alt ? ZeroSigns::alternate : ZeroSigns::keep;
}

bool SignsOfZeros::settle(format::ZeroMode mode, const ZeroCount& count) {
  const ZeroSigns right = one_signed(count) ? ZeroSigns::alternate : ZeroSigns::keep;
  if (mode != format::ZeroMode::automatic || right == last_) return true;
  last_ = right;
  return false;
}

std::unique_ptr<Backend> make_cpu_backend(const Kernels& kernels) {
  return std::make_unique<CpuBackend>(kernels);
}

}  // namespace planesmith
