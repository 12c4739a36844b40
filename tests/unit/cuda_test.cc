// The CUDA backend against the scalar reference, where there is a device.
#include <doctest/doctest.h>

#include <memory>
#include <numeric>
#include <vector>

#include "base/error.h"
#include "base/parallel.h"
#include "quant/backend.h"
#include "quant/expert_converter.h"
#include "unit/build_fixture.h"
#include "unit/kernel_inputs.h"
#include "unit/quantizer_cases.h"

namespace planesmith::testing {
namespace {

using format::Section;
using format::ZeroMode;

// Null, with a message, if there is no device.
std::unique_ptr<Backend> cuda() {
  std::string why;
  std::unique_ptr<Backend> backend = make_cuda_backend({}, why);
  if (backend == nullptr) MESSAGE("SKIPPED: no CUDA backend: ", why);
  return backend;
}

// An expert of any family, and its storage.
template <typename Case>
struct Expert {
  Case w1, w3, w2;
  ExpertSlices slices() const { return {w1.slice, w3.slice, w2.slice}; }
  std::uint64_t rows(bool second) const { return second ? w2.slice.rows : w1.slice.rows + w3.slice.rows; }
  std::uint64_t cols(bool second) const { return second ? w2.slice.cols : w1.slice.cols; }
};
template <typename Case>
Expert<Case> draw_expert(Case (*draw_case)(const Draw&, const Shape&), const Draw& draw, const Shape& w1,
                         const Shape& w2) {
  Expert<Case> expert{draw_case(draw, w1), draw_case(draw, w1), draw_case(draw, w2)};
  return expert;
}

// An expert's sections, between guard bytes.
class Sections {
 public:
  static constexpr std::uint64_t kGuard = 256;

  template <typename Case>
  Sections(const Expert<Case>& expert, unsigned wanted) {
    for (int i = 0; i < format::kSections; ++i) {
      const auto section = static_cast<Section>(i);
      const bool second = section == Section::planes2 || section == Section::sc2 || section == Section::fp2 ||
                          section == Section::fpq2;
      const std::uint64_t rows = expert.rows(second), cols = expert.cols(second);
      std::uint64_t bytes = format::code_bytes(rows, cols);
      if (section == Section::fp13 || section == Section::fp2) bytes = format::nibble_bytes(rows, cols);
      if (section == Section::fpq13 || section == Section::fpq2) bytes = format::quintal_bytes(rows, cols);
      if (section == Section::sc13 || section == Section::sc2) bytes = format::scale_bytes(rows, cols);
      if ((wanted >> i & 1) == 0) continue;
      buffers_.emplace_back(bytes + 2 * kGuard, 0xA5);
      targets_[static_cast<std::size_t>(i)] = buffers_.back().data() + kGuard;
    }
  }
  const SectionTargets& targets() const { return targets_; }
  bool operator==(const Sections& other) const { return buffers_ == other.buffers_; }

 private:
  std::vector<std::vector<std::uint8_t>> buffers_;
  SectionTargets targets_{};
};

// Whole experts on a device, a slice for each projection, w1 and w3 in flight together.
class OnDevice {
 public:
  OnDevice(Backend& backend, int worker) : backend_(backend), converter_(backend.make_converter(worker)) {}

  std::optional<BadElement> convert(const ExpertSlices& expert, ZeroMode mode,
                                    const SectionTargets& targets) {
    const auto at = [&](Section section) { return targets[static_cast<std::size_t>(section)]; };
    const PlaneTarget first{at(Section::planes13), at(Section::fp13), at(Section::fpq13), at(Section::sc13)};
    const PlaneTarget second{at(Section::planes2), at(Section::fp2), at(Section::fpq2), at(Section::sc2)};
    if (auto bad = convert_matrix(expert, {Projection::w1, Projection::w3}, mode, first, signs_[0]))
      return bad;
    return convert_matrix(expert, {Projection::w2}, mode, second, signs_[1]);
  }
  Converter& converter() { return *converter_; }

 private:
  std::optional<BadElement> convert_matrix(const ExpertSlices& expert,
                                           const std::vector<Projection>& projections, ZeroMode mode,
                                           const PlaneTarget& target, SignsOfZeros& signs) {
    PlaneSet wanted;
    PerPlane<std::uint8_t*> to;
    to[Plane::codes] = target.codes;
    to[Plane::nibbles] = target.nibbles;
    to[Plane::quintals] = target.quintals;
    to[Plane::scales] = target.scales;
    for (const Plane plane : kPlanes) wanted[plane] = to[plane] != nullptr;
    if (wanted == PlaneSet{}) return std::nullopt;
    std::vector<std::unique_ptr<Buffer>> made;
    for (const Projection projection : projections)
      made.push_back(
          backend_.allocate(PlaneLayout(wanted, expert[static_cast<std::size_t>(projection)]).bytes()));
    for (;;) {
      for (std::size_t i = 0; i < projections.size(); ++i)
        converter_->start(expert[static_cast<std::size_t>(projections[i])], signs.choose(mode),
                          mode == ZeroMode::automatic, wanted, made[i]->bytes());
      std::optional<BadElement> bad;
      ZeroCount zeros;
      for (const Projection projection : projections) {
        const Converter::Converted converted = converter_->finish();
        if (!converted.finite && !bad)
          bad = {projection, find_nonfinite(expert[static_cast<std::size_t>(projection)])};
        zeros += converted.zeros;
      }
      if (bad) return bad;
      if (signs.settle(mode, zeros)) break;
    }
    for (std::size_t i = 0; i < projections.size(); ++i) {
      const PlaneLayout layout(wanted, expert[static_cast<std::size_t>(projections[i])]);
      for (const Plane plane : kPlanes)
        if (wanted[plane]) {
          const ConstBytes bytes = layout.plane(plane, made[i]->bytes());
          to[plane] = std::copy(bytes.begin(), bytes.end(), to[plane]);
        }
    }
    return std::nullopt;
  }

  Backend& backend_;
  std::unique_ptr<Converter> converter_;
  SignsOfZeros signs_[2];
};

// Converts on both and compares every byte of every section; spoiled experts must be refused for the same
// element.
template <typename Case>
void check(OnDevice& on_device, const Expert<Case>& expert, ZeroMode mode, unsigned wanted) {
  Sections expected(expert, wanted), found(expert, wanted);
  const auto refused = ExpertConverter(kScalarKernels).convert(expert.slices(), mode, expected.targets());
  const auto also_refused = on_device.convert(expert.slices(), mode, found.targets());
  REQUIRE(refused.has_value() == also_refused.has_value());
  if (!refused) {
    CHECK(expected == found);
    return;
  }
  CHECK(refused->projection == also_refused->projection);
  CHECK(refused->where.found == also_refused->where.found);
  CHECK(refused->where.in_scale == also_refused->where.in_scale);
  CHECK(refused->where.row == also_refused->where.row);
  CHECK(refused->where.col == also_refused->where.col);
}

template <typename Case>
void check_family(Case (*draw_case)(const Draw&, const Shape&), int rounds) {
  const std::unique_ptr<Backend> device = cuda();
  if (device == nullptr) return;
  OnDevice on_device(*device, 0);
  const Draw draw = random_bytes(7);
  for (int round = 0; round < rounds; ++round) {
    CAPTURE(round);
    auto expert = draw_expert(draw_case, draw, draw_shape(draw), draw_shape(draw));
    if (draw() % 8 == 0) {
      Case* const parts[] = {&expert.w1, &expert.w3, &expert.w2};
      spoil(*parts[draw() % 3u], draw);
    }
    const unsigned wanted = draw() % 4 == 0 ? draw() : 255u;
    check(on_device, expert, format::kZeroModes[draw() % 3u], wanted);
  }
  // Rows longer than a thread block's share, a last one that is not full, and many panels.
  for (const Shape& shape : {Shape{32, 64 * 67}, Shape{16 * 300, 64 * 17}, Shape{16, 64}}) {
    const auto expert = draw_expert(draw_case, draw, shape, {shape.rows, shape.cols});
    for (const ZeroMode mode : format::kZeroModes) check(on_device, expert, mode, 255u);
  }
}

}  // namespace

TEST_CASE("CUDA: MXFP4 equals the reference") {
  check_family<Mxfp4Case>(draw_mxfp4, 200);
}
TEST_CASE("CUDA: FP8 equals the reference") {
  check_family<Fp8Case>(draw_fp8, 600);
}
TEST_CASE("CUDA: NVFP4 equals the reference") {
  check_family<Nvfp4Case>(draw_nvfp4, 400);
}

TEST_CASE("CUDA: a tensor's own scale that is not finite is refused") {
  const std::unique_ptr<Backend> device = cuda();
  if (device == nullptr) return;
  const Draw draw = random_bytes(8);
  auto expert = draw_expert<Nvfp4Case>(draw_nvfp4, draw, {32, 128}, {64, 64});
  expert.w3.slice.scale_2 = std::bit_cast<float>(0x7F800000u);
  OnDevice on_device(*device, 0);
  check(on_device, expert, ZeroMode::automatic, 255u);
}

// Zeros of one sign in w1 alone do not decide; those of w1 and w3 together do.
TEST_CASE("CUDA: mode auto judges w1 and w3 together") {
  const std::unique_ptr<Backend> device = cuda();
  if (device == nullptr) return;
  OnDevice on_device(*device, 0);
  const Draw draw = random_bytes(9);
  for (int negatives = 0; negatives < 40; ++negatives) {
    auto expert = draw_expert<Fp8Case>(draw_fp8, draw, {16, 64}, {16, 64});
    for (Fp8Case* part : {&expert.w1, &expert.w3, &expert.w2})
      for (std::uint64_t row = 0; row < 16; ++row)
        for (std::uint64_t col = 0; col < 64; ++col) {
          std::uint8_t& b = part->weight.row(row)[col];
          if ((b & 0x7F) == 0) b = 1;
        }
    // 200 zeros in w1 and as many in w3, whose balance is reached at 20 negative ones.
    for (int i = 0; i < 200; ++i)
      expert.w1.weight.row(static_cast<std::uint64_t>(i) /
                           64)[i % 64] = 0,
                                   expert.w3.weight.row(static_cast<std::uint64_t>(i) / 64)[i % 64] =
                                       i < negatives ? 0x80 : 0;
    check(on_device, expert, ZeroMode::automatic, 255u);
  }
}

TEST_CASE("CUDA: workers at the same time") {
  const std::unique_ptr<Backend> device = cuda();
  if (device == nullptr) return;
  constexpr int kWorkers = 6, kExperts = 60;
  std::vector<OnDevice> workers;
  for (int worker = 0; worker < kWorkers; ++worker) workers.emplace_back(*device, worker);
  std::vector<Expert<Nvfp4Case>> experts;
  const Draw draw = random_bytes(10);
  for (int i = 0; i < kExperts; ++i)
    experts.push_back(draw_expert<Nvfp4Case>(draw_nvfp4, draw,
                                             {16 * (1 + draw() % 40u), 64 * (1 + draw() % 9u)}, {64, 128}));
  std::vector<int> equal(kExperts);
  parallel_for(kExperts, kWorkers, [&](std::size_t i, int worker) {
    Sections expected(experts[i], 255), found(experts[i], 255);
    ExpertConverter(kScalarKernels).convert(experts[i].slices(), ZeroMode::automatic, expected.targets());
    workers[static_cast<std::size_t>(worker)].convert(experts[i].slices(), ZeroMode::automatic,
                                                      found.targets());
    equal[i] = expected == found;
  });
  CHECK(std::accumulate(equal.begin(), equal.end(), 0) == kExperts);
}

TEST_CASE("CUDA: too little device memory is an error, after which the converter works on") {
  const std::unique_ptr<Backend> device = cuda();
  if (device == nullptr) return;
  OnDevice on_device(*device, 0);
  const Draw draw = random_bytes(11);
  const auto expert = draw_expert<Mxfp4Case>(draw_mxfp4, draw, {32, 128}, {64, 64});
  auto huge = expert;
  huge.w1.slice.rows = huge.w1.slice.cols = 1u << 24;  // never read
  PlaneSet codes;
  codes[Plane::codes] = true;
  const std::unique_ptr<Buffer> planes = device->allocate(1 << 16);
  CHECK_THROWS_WITH_AS(
      on_device.converter().start(huge.w1.slice, ZeroSigns::keep, false, codes, planes->bytes()),
      doctest::Contains("device memory"), Error);
  check(on_device, expert, ZeroMode::sign, 255u);
}

TEST_CASE("CUDA: a device number that does not exist is a usage error") {
  if (cuda() == nullptr) return;
  try {
    make_backend({"cuda", "auto", {4711}})->wait();
    FAIL("no error");
  } catch (const Error& error) {
    CHECK(error.code() == ErrorCode::usage);
    CHECK(std::string(error.what()).find("4711") != std::string::npos);
  }
}

TEST_CASE("CUDA: caches and packs equal the engine's") {
  if (cuda() == nullptr) return;
  for (const std::string& model : test::kGoldenModels)
    for (const test::Variant& variant : test::golden_variants(model)) {
      CAPTURE(model);
      CAPTURE(variant.name);
      const Scratch out;
      test::build_into(test::hasty_context(), test::golden(model) + "/checkpoint", variant.request,
                       variant.ckpt_id, out.path(), Trust::record, {"cuda", "auto", {}});
      CHECK(test::engine_digests(out.path()) == variant.files);
    }
}

TEST_CASE("CUDA: buffers are aligned and can be empty") {
  const std::unique_ptr<Backend> device = cuda();
  if (device == nullptr) return;
  for (const std::size_t bytes : {0u, 1u, 5000u})
    CHECK(reinterpret_cast<std::uintptr_t>(device->allocate(bytes)->bytes().data()) % 4096 == 0);
}

TEST_CASE("CUDA: float weights to FP4 equal the reference") {
  const std::unique_ptr<Backend> device = cuda();
  if (device == nullptr) return;
  const std::unique_ptr<Quantizer> quantizer = device->make_quantizer(0);
  check_all_halves(*device, *quantizer);
  check_edges(*device, *quantizer);
  check_nonfinite(*device, *quantizer);
  check_drawn(*device, *quantizer, 300);
  check_errors(*device, *quantizer);
}

TEST_CASE("CUDA: quantizers at the same time") {
  const std::unique_ptr<Backend> device = cuda();
  if (device != nullptr) check_workers(*device);
}

TEST_CASE("CUDA: a matrix beyond device memory is an error, after which the quantizer works on") {
  const std::unique_ptr<Backend> device = cuda();
  if (device == nullptr) return;
  const std::unique_ptr<Quantizer> quantizer = device->make_quantizer(0);
  const FloatStream::Matrix huge{FloatType::bf16, std::uint64_t{1} << 44};
  const auto unused = [](auto&&...) { FAIL("read or written"); };
  const std::unique_ptr<Buffer> room = device->allocate(1 << 16);
  CHECK_THROWS_WITH_AS(quantizer->quantize(Fp4::nvfp4, {{&huge, 1}, unused, unused}, room->bytes()),
                       doctest::Contains("device memory"), Error);
  check_edges(*device, *quantizer);
}

}  // namespace planesmith::testing
