// Pieces of any size, any number of them in flight, give the same files, manifests included.
#include <doctest/doctest.h>

#include <algorithm>
#include <deque>

#include "base/error.h"
#include "base/size.h"
#include "build_fixture.h"
#include "synthetic/model.h"
#include "synthetic/write.h"

using namespace planesmith;
using namespace planesmith::test;

namespace {

// A device that converts as late as it may: other weights in a buffer that is in use give other planes.
class LateBackend : public Backend {
 public:
  LateBackend(std::uint64_t piece_bytes, std::size_t in_flight)
      : piece_bytes_(piece_bytes), in_flight_(in_flight) {}
  std::string describe() const override { return "late"; }
  std::unique_ptr<Converter> make_converter(int) override { return std::make_unique<Late>(in_flight_); }
  std::unique_ptr<Quantizer> make_quantizer(int worker) override { return cpu_->make_quantizer(worker); }
  std::unique_ptr<Buffer> allocate(std::size_t bytes) override { return cpu_->allocate(bytes); }
  std::uint64_t piece_bytes() const override { return piece_bytes_; }
  std::size_t pieces_in_flight() const override { return in_flight_; }
  int workers(int threads) const override { return threads; }

 private:
  class Late : public Converter {
   public:
    explicit Late(std::size_t most) : most_(most) {}
    void start(const Slice& slice, ZeroSigns signs, bool count_zeros, const PlaneSet& wanted,
               Bytes planes) override {
      REQUIRE(pieces_.size() < most_);
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
    const std::size_t most_;
    std::deque<Piece> pieces_;
  };

  const std::uint64_t piece_bytes_;
  const std::size_t in_flight_;
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
                                         Backend& backend) {
  const Scratch out;
  const Context context = hasty_context();
  const Checkpoint checkpoint = Checkpoint::open(context, directory);
  const Model model = find_experts(checkpoint);
  build(context, checkpoint, model, make_plan(model, request),
        {"id", out / "cache", out / "store", Trust::record}, backend);
  return digests(out.path());
}

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
          LateBackend late(bytes, in_flight);
          CHECK(pieces == built(directory, request, late));
        }
      PlanRequest alone = request;
      alone.rank = world - 1;
      LateBackend late(64 * kKiB, 2);
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
          LateBackend late(bytes, in_flight);
          CHECK_THROWS_WITH_AS(built(directory, request, late),
                               doctest::Contains("element [400, 7] is not finite"), Error);
          request.rank.reset();
        }
  }
}
