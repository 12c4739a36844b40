// Pieces of any size, any number of them in flight, by one backend or by one that takes over from another,
// give the same files, manifests included.
#include <doctest/doctest.h>

#include <algorithm>
#include <atomic>
#include <deque>
#include <functional>
#include <future>
#include <thread>

#include "base/error.h"
#include "base/size.h"
#include "build_fixture.h"
#include "quant/starting_backend.h"
#include "synthetic/model.h"
#include "synthetic/write.h"

using namespace planesmith;
using namespace planesmith::test;

namespace {

// A device that converts as late as it may: other weights in a buffer that is in use give other planes.
class LateBackend : public Backend {
 public:
  // on_start: called for each slice, with the number of those before it.
  explicit LateBackend(
      Pieces pieces, std::function<void(int)> on_start = [](int) {})
      : pieces_(pieces), on_start_(std::move(on_start)) {}
  int slices() const { return slices_; }
  std::string describe() const override { return "late"; }
  std::unique_ptr<Converter> make_converter(int) override { return std::make_unique<Late>(*this); }
  std::unique_ptr<Quantizer> make_quantizer(int worker) override { return cpu_->make_quantizer(worker); }
  std::unique_ptr<Buffer> allocate(std::size_t bytes) override { return cpu_->allocate(bytes); }
  Pieces pieces() const override { return pieces_; }

 private:
  class Late : public Converter {
   public:
    explicit Late(LateBackend& backend) : backend_(backend) {}
    void start(const Slice& slice, ZeroSigns signs, bool count_zeros, const PlaneSet& wanted,
               Bytes planes) override {
      backend_.on_start_(backend_.slices_++);
      REQUIRE(pieces_.size() < backend_.pieces_.in_flight);
      REQUIRE(planes.size() >= PlaneLayout(wanted, slice).bytes());
      // Planes may be written from the start to the finish of their piece.
      for (const Piece& piece : pieces_) REQUIRE(piece.planes.data() != planes.data());
      pieces_.push_back({slice, signs, count_zeros, wanted, planes});
    }
    Converted finish() override {
      REQUIRE(!pieces_.empty());
      const Piece piece = pieces_.front();
      pieces_.pop_front();
      Converted out;
      out.finite = convert_slice(kScalarKernels, piece.slice, piece.signs,
                                 PlaneLayout(piece.wanted, piece.slice).target(piece.planes.data()),
                                 piece.count_zeros ? &out.zeros : nullptr);
      return out;
    }

   private:
    struct Piece {
      Slice slice;
      ZeroSigns signs;
      bool count_zeros;
      PlaneSet wanted;
      Bytes planes;
    };
    LateBackend& backend_;
    std::deque<Piece> pieces_;
  };

  const Pieces pieces_;
  const std::function<void(int)> on_start_;
  std::atomic<int> slices_{0};
  std::unique_ptr<Backend> cpu_ = make_cpu_backend(kScalarKernels);
};

// Large enough for each projection to be several pieces, on two ranks, too.
void make_checkpoint(const std::string& directory, synthetic::Style style) {
  const Context context = hasty_context();
  const synthetic::Spec spec{style, {2, 3, 1024, 512}, style == synthetic::Style::deepseek_v4 ? 0u : 1u, 0};
  const std::vector<synthetic::ShardHeader> shards =
      synthetic::cut_into_shards(synthetic::tensors_of(spec), 1);
  make_dirs(context.os, directory);
  const std::uint64_t bytes = synthetic::write_shards(context, directory, shards);
  put_file(directory + "/model.safetensors.index.json", synthetic::index_json(shards, bytes));
  put_file(directory + "/config.json", pretty(synthetic::config_of(spec)));
  synthetic::fill_shards(context, directory, shards, synthetic::Weights(1, 3),
                         [](const Tensor&) { return true; });
}

// Makes every zero of an expert positive, so that mode auto balances this expert alone.
void make_zeros_positive(const std::string& directory, std::size_t number) {
  const Checkpoint checkpoint = Checkpoint::open(hasty_context(), directory);
  const Model model = find_experts(checkpoint);
  for (const ExpertTensors& tensors : model.layers.front().experts[number]) {
    File file = File::open_write(posix(), checkpoint.shard_path(*tensors.weight));
    std::vector<std::uint8_t> weight(tensors.weight->size);
    file.read(weight, tensors.weight->offset);
    for (std::uint8_t& byte : weight)
      if (model.family == Family::fp8) {
        if (byte == 0x80) byte = 0;
      } else {
        if ((byte & 0x0F) == 0x08) byte &= 0xF0;
        if ((byte & 0xF0) == 0x80) byte &= 0x0F;
      }
    file.write(weight, tensors.weight->offset);
  }
}

std::map<std::string, std::string> built(const std::string& directory, const PlanRequest& request,
                                         Backend& backend, const Scratch& out = {}) {
  const Context context = hasty_context();
  const Checkpoint checkpoint = Checkpoint::open(context, directory);
  const Model model = find_experts(checkpoint);
  build(context, checkpoint, model, make_plan(model, request),
        {"id", out / "cache", out / "store", Trust::record}, backend);
  return digests(out.path());
}

// What one backend makes of a checkpoint, and in how many slices.
struct BuiltAlone {
  BuiltAlone() {
    make_checkpoint(directory, synthetic::Style::glm_fp8);
    request.cache = format::Fp4Tier::none;
    LateBackend backend({64 * kKiB, 1});
    files = built(directory, request, backend);
    slices = backend.slices();
  }
  const Scratch scratch;
  const std::string directory = scratch / "checkpoint";
  PlanRequest request;
  std::map<std::string, std::string> files;
  int slices = 0;
};

}  // namespace

TEST_CASE("pieces of any size, any number in flight, give the same files") {
  for (const synthetic::Style style :
       {synthetic::Style::deepseek_v4, synthetic::Style::glm_fp8, synthetic::Style::glm_nvfp4}) {
    CAPTURE(static_cast<int>(style));
    const Scratch scratch;
    const std::string directory = scratch / "checkpoint";
    make_checkpoint(directory, style);
    if (style != synthetic::Style::deepseek_v4) make_zeros_positive(directory, 1);
    const std::unique_ptr<Backend> cpu = make_backend({"cpu", "auto", {}});
    for (const std::uint64_t world : {1, 2}) {
      CAPTURE(world);
      PlanRequest request;
      request.world = world;
      request.cache = format::Fp4Tier::nibble;
      request.tiers = {format::Tier::base, format::Tier::fp4q};
      const auto pieces = built(directory, request, *cpu);
      CHECK(pieces.size() > 6);
      for (const std::uint64_t bytes : {std::uint64_t{1}, 64 * kKiB, kGiB})
        for (const std::size_t in_flight : {1, 2, 3}) {
          CAPTURE(bytes);
          CAPTURE(in_flight);
          LateBackend late({bytes, in_flight});
          CHECK(pieces == built(directory, request, late));
        }
      PlanRequest alone = request;
      alone.rank = world - 1;
      LateBackend late({64 * kKiB, 2});
      const auto last = built(directory, alone, late);
      CHECK(last.size() * world == pieces.size());
      for (const auto& [path, digest] : last) CHECK(pieces.at(path) == digest);
      if (style == synthetic::Style::deepseek_v4) continue;
      // The balanced expert makes a difference, so it was converted a second time.
      request.zero_mode = format::ZeroMode::sign;
      const auto content = [](std::map<std::string, std::string> files) {
        std::vector<std::string> out;
        for (const auto& [path, digest] : files)
          if (path.ends_with(".planes13.bin")) out.push_back(digest);
        return out;
      };
      CHECK(content(built(directory, request, *cpu)) != content(pieces));
    }
  }
}

TEST_CASE("a bad element in a later piece is named by its row in the tensor, with pieces in flight, too") {
  const Scratch scratch;
  const std::string directory = scratch / "checkpoint";
  make_checkpoint(directory, synthetic::Style::glm_fp8);
  const Checkpoint checkpoint = Checkpoint::open(hasty_context(), directory);
  const Tensor& tensor =
      *find_experts(checkpoint).layers.front().experts[2][static_cast<int>(Projection::w3)].weight;
  const std::uint8_t nan[] = {0x7F};
  File::open_write(posix(), checkpoint.shard_path(tensor)).write(nan, tensor.offset + 400 * 1024 + 7);
  for (const std::uint64_t world : {1, 2}) {
    PlanRequest request;
    request.world = world;
    request.cache = format::Fp4Tier::none;
    CHECK_THROWS_WITH_AS(build_into(hasty_context(), directory, request, "id", scratch / "out"),
                         doctest::Contains("element [400, 7] is not finite"), Error);
    for (const std::uint64_t bytes : {std::uint64_t{1}, 64 * kKiB})
      for (const std::size_t in_flight : {1, 2, 3})
        for (const bool alone : {false, true}) {
          CAPTURE(bytes);
          CAPTURE(in_flight);
          CAPTURE(alone);
          if (alone) request.rank = world - 1;
          LateBackend late({bytes, in_flight});
          CHECK_THROWS_WITH_AS(built(directory, request, late),
                               doctest::Contains("element [400, 7] is not finite"), Error);
          request.rank.reset();
        }
  }
}

TEST_CASE("a device that starts late takes over from the CPU, and gives the same files") {
  const BuiltAlone alone;
  REQUIRE(alone.slices > 20);
  for (const int before : {0, 7, alone.slices - 1, alone.slices}) {
    CAPTURE(before);
    std::promise<void> gate;
    StartingBackend* starting = nullptr;
    LateBackend* device = nullptr;
    // The slice that opens the gate waits until the device is there.
    auto cpu = std::make_unique<LateBackend>(Pieces{64 * kKiB, 1}, [&](int number) {
      if (number != before) return;
      gate.set_value();
      starting->wait();
    });
    const LateBackend& stand_in = *cpu;
    StartingBackend backend(
        [&] {
          if (before != alone.slices) gate.get_future().wait();  // else it starts at once
          auto made = std::make_unique<LateBackend>(Pieces{80 * kKiB, 3});
          device = made.get();
          return made;
        },
        {80 * kKiB, 3}, std::move(cpu));
    starting = &backend;
    if (before == alone.slices) backend.wait();
    CHECK(alone.files == built(alone.directory, alone.request, backend));
    CHECK((stand_in.slices() == 0) == (before == alone.slices));
    CHECK((device->slices() == 0) == (before == alone.slices - 1));
    CHECK(&backend.current() == device);
    CHECK(backend.describe() == "late");
  }
}

TEST_CASE(
    "a device that cannot be used is an error, and no layer is there, even if the CPU was done before") {
  const BuiltAlone alone;
  for (const int before : {-1, 0, 7, alone.slices - 1}) {
    CAPTURE(before);
    std::promise<void> gate;
    if (before < 0) gate.set_value();
    StartingBackend backend(
        [&]() -> std::unique_ptr<Backend> {
          gate.get_future().wait();
          throw Error("GPU 0 is broken");
        },
        {64 * kKiB, 3}, std::make_unique<LateBackend>(Pieces{64 * kKiB, 1}, [&](int number) {
          if (number == before) gate.set_value();
        }));
    const Scratch out;
    CHECK_THROWS_WITH_AS(built(alone.directory, alone.request, backend, out), "GPU 0 is broken", Error);
    for (const auto& [path, digest] : digests(out.path())) CHECK(!path.ends_with(".bin"));
    CHECK_THROWS_WITH_AS(backend.current(), "GPU 0 is broken", Error);
    CHECK_THROWS_WITH_AS(backend.wait(), "GPU 0 is broken", Error);
    CHECK_THROWS_WITH_AS(backend.describe(), "GPU 0 is broken", Error);
  }
}

TEST_CASE("a device that cannot be used is an error where no layer is left to make, too") {
  const BuiltAlone alone;
  const Scratch out;
  const std::unique_ptr<Backend> cpu = make_cpu_backend(kScalarKernels);
  built(alone.directory, alone.request, *cpu, out);
  StartingBackend backend([]() -> std::unique_ptr<Backend> { throw Error("GPU 0 is broken"); },
                          {64 * kKiB, 3}, make_cpu_backend(kScalarKernels));
  CHECK_THROWS_WITH_AS(built(alone.directory, alone.request, backend, out), "GPU 0 is broken", Error);
}

TEST_CASE("the stand-in stays where there is no device") {
  StartingBackend backend([] { return nullptr; }, {64 * kKiB, 3}, make_cpu_backend(kScalarKernels));
  backend.wait();
  CHECK(backend.describe() == "cpu (scalar)");
  CHECK(backend.current().pieces().in_flight == 1);
}
