// The headers, index and config of a real model, from outside the repository: PLANESMITH_SHARED, else
// ../shared.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <map>

#include "base/size.h"
#include "checkpoint/model.h"
#include "peak_memory.h"
#include "safetensors_files.h"

using namespace planesmith;

namespace fs = std::filesystem;

TEST_CASE("the headers of a real model of 45,821 tensors") {
  const char* shared = std::getenv("PLANESMITH_SHARED");
  const std::string archive = (shared != nullptr ? std::string(shared) : SOURCE_DIR "/../shared") +
                              "/real/ds4-flash-0731-reap160/headers.tar.xz";
  if (!fs::exists(archive)) {
    MESSAGE("SKIPPED: " << archive << " is not there");
    return;
  }
  const Scratch scratch;
  REQUIRE(std::system(fmt::format("tar -xf '{}' -C '{}'", archive, scratch.path()).c_str()) == 0);
  const std::string directory = scratch / "model";
  fs::create_directory(directory);
  for (const auto& entry : fs::directory_iterator(scratch / "hdrs")) {
    const std::string header = file_contents(entry.path());
    const Json parsed = Json::parse(header);
    std::uint64_t data = 0;
    for (const auto& [tensor, described] : parsed.items())
      if (tensor != "__metadata__") data = std::max(data, described["data_offsets"][1].get<std::uint64_t>());
    const std::string shard = directory + "/" + entry.path().stem().string();
    put_file(shard, safetensors(header));
    fs::resize_file(shard, 8 + header.size() + data);
  }
  fs::rename(scratch / "config.json", directory + "/config.json");
  fs::rename(scratch / "0731_model.safetensors.index.json", directory + "/" + std::string(kIndexName));

  Context context;
  context.threads = 8;
  const Checkpoint checkpoint = Checkpoint::open(context, directory);
  CHECK(checkpoint.shards().size() == 48);
  CHECK(checkpoint.tensors().size() == 45'821);
  const Model model = find_experts(checkpoint);
  CHECK(model.family == Family::mxfp4);
  CHECK(model.geometry == format::Geometry{43, 160, 4096, 2048});
  CHECK(model.layers.size() == 43);  // each with all of its 160 x 3 weights and scales
  const std::map<std::string, std::uint64_t> left = {
      {"MTP", 2977}, {"attention", 870}, {"embeddings", 1},      {"head", 1}, {"hyper-connections", 261},
      {"norms", 87}, {"router", 86},     {"shared experts", 258}};
  CHECK(model.left_alone.size() == left.size());
  std::uint64_t sum = 43 * 160 * 3 * 2;
  for (const auto& row : left) {
    const auto& kind = row.first;
    CAPTURE(kind);
    REQUIRE(model.left_alone.count(kind) == 1);
    CHECK(model.left_alone.at(kind).tensors == row.second);
    sum += row.second;
  }
  CHECK(sum == checkpoint.tensors().size());

  const auto work = [&] { return find_experts(Checkpoint::open(Context{}, directory)).layers.size() == 43; };
  if (kMemoryIsMeasurable) CHECK(peak_memory_of(work) < 100 * kMiB);
}
