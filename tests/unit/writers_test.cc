// Threads that write into the same file wait for each other: no two do while there is other work.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include "build_fixture.h"
#include "pipeline/from_planescache.h"
#include "repack/repack.h"
#include "synthetic/model.h"
#include "synthetic/write.h"
#include "writers_os.h"

using namespace planesmith;
using namespace planesmith::test;

namespace {

constexpr std::size_t kLayers = 12, kExperts = 4;
constexpr int kThreads = 3;

// A checkpoint of small experts in as many shards as layers.
void make_checkpoint(const std::string& directory) {
  const synthetic::Spec spec{
      .geometry = {.layers = kLayers, .experts = kExperts, .hidden = 256, .intermediate = 128},
      .mtp_layers = 0};
  const auto shards = synthetic::cut_into_shards(synthetic::tensors_of(spec), kLayers);
  std::filesystem::create_directories(directory);
  put_file(directory + "/config.json", pretty(synthetic::config_of(spec)));
  const std::uint64_t bytes = synthetic::write_shards(Context{}, directory, shards);
  put_file(directory + "/model.safetensors.index.json", synthetic::index_json(shards, bytes));
  synthetic::fill_shards(Context{}, directory, shards, synthetic::Weights(1, kExperts),
                         [](const Tensor&) { return true; });
}

struct Bench {
  Scratch scratch;
  std::string checkpoint = scratch / "checkpoint", out = scratch / "out";
  WritersOs os;
  Context context{.os = os, .threads = kThreads};

  Bench() {
    make_checkpoint(checkpoint);
    std::filesystem::create_directory(out);
  }
  // Files of these names, finished or not.
  std::size_t count(const std::string& directory, std::string_view part) const {
    std::size_t files = 0;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(directory))
      files += !entry.path().string().ends_with(".json") &&
               entry.path().filename().string().find(part) != std::string::npos;
    return files;
  }
};

}  // namespace

TEST_CASE("a build writes layers side by side, each thread its own") {
  Bench bench;
  bench.os.on_second_writer = [&] {
    // The last layers are begun a moment before their files are there.
    CHECK(bench.count(bench.out, ".planes13.bin") + kThreads >= kLayers);
  };
  PlanRequest request;
  request.cache = format::Fp4Tier::nibble;
  build_into(bench.context, bench.checkpoint, request, "pin", bench.out);
  CHECK(bench.os.writers.size() == kThreads);
  CHECK(bench.os.most_files > 1);
}

TEST_CASE("the threads help with a layer that is alone") {
  Bench bench;
  PlanRequest request;
  request.cache = format::Fp4Tier::nibble;
  request.layers = {0};
  build_into(bench.context, bench.checkpoint, request, "pin", bench.out);
  CHECK(bench.os.writers.size() > 1);
}

TEST_CASE("packs from a cache: each thread its own pack") {
  Bench bench;
  PlanRequest request;
  request.cache = format::Fp4Tier::nibble;
  build_into(hasty_context(), bench.checkpoint, request, "pin", bench.out);
  FromCacheRequest packs;
  packs.cache_root = bench.out + "/planescache";
  packs.store = bench.out + "/store";
  packs.tiers = {format::Tier::base, format::Tier::delta, format::Tier::fp4};
  packs.reflink = Reflink::never;
  std::size_t smallest = SIZE_MAX;
  for (const format::Tier tier : packs.tiers) {
    const Checkpoint checkpoint = Checkpoint::open(Context{}, bench.checkpoint);
    const Model model = find_experts(checkpoint);
    smallest = std::min<std::size_t>(
        smallest, format::pack_spec(tier, model.geometry, format::rank_shape(model.geometry, 1), "pin",
                                    format::ZeroMode::automatic)
                          .slot_bytes *
                      kLayers * kExperts);
  }
  bench.os.on_second_writer = [&] {
    // One pack is done, except for what its thread is working on.
    std::size_t most = 0;
    for (const auto& [inode, bytes] : bench.os.written) most = std::max(most, bytes);
    CHECK(most + smallest / kExperts >= smallest);
  };
  packs_from_planescache(bench.context, packs, choose_kernels("auto"));
  CHECK(bench.os.writers.size() == kThreads);
}

TEST_CASE("repack-experts writes shards side by side, each thread its own") {
  Bench bench;
  RepackOptions options;
  options.source = bench.checkpoint;
  options.target = bench.out + "/repacked";
  bench.os.on_second_writer = [&] {
    CHECK(bench.count(options.target, ".safetensors") + kThreads >= kLayers);
  };
  repack(bench.context, options);
  CHECK(bench.os.writers.size() == kThreads);
  CHECK(bench.os.most_files > 1);
}
