// repack-experts build: the reference's results, experts that span shards, small memory, resuming.
#include "repack/repack.h"

#include <doctest/doctest.h>
#include <sys/stat.h>

#include <map>
#include <random>

#include "base/error.h"
#include "base/hash.h"
#include "base/stream.h"
#include "safetensors_files.h"

using namespace planesmith;

namespace {

const std::string kMini = SOURCE_DIR "/tests/golden/ds4-mini/checkpoint";

RepackOptions options_for(const std::string& source, const std::string& target, Granularity granularity,
                          int levels) {
  RepackOptions options;
  options.source = source;
  options.target = target;
  options.granularity = granularity;
  options.levels = levels;
  return options;
}

// The bytes of every tensor, by name.
std::map<std::string, std::string> tensors_of(const std::string& directory) {
  const Checkpoint checkpoint = Checkpoint::open(Context{}, directory);
  std::map<std::string, std::string> all;
  for (const Tensor& tensor : checkpoint.tensors())
    all[tensor.name] = file_contents(checkpoint.shard_path(tensor)).substr(tensor.offset, tensor.size);
  return all;
}

// The same tensors as in `source`, spread over two shards so that every expert has parts in both.
void spread(const std::string& source, const std::string& target) {
  const Checkpoint checkpoint = Checkpoint::open(Context{}, source);
  std::filesystem::create_directory(target);
  std::filesystem::copy(source + "/config.json", target + "/config.json");
  nlohmann::ordered_json headers[2], index;
  std::string data[2];
  for (const Tensor& tensor : checkpoint.tensors()) {
    const std::size_t shard = tensor.name.find(".w2.") != std::string::npos ? 1 : 0;
    headers[shard][tensor.name] = {{"dtype", dtype_text(tensor)},
                                   {"shape", tensor.shape},
                                   {"data_offsets", {data[shard].size(), data[shard].size() + tensor.size}}};
    data[shard] += file_contents(checkpoint.shard_path(tensor)).substr(tensor.offset, tensor.size);
    index["weight_map"][tensor.name] = shard == 0 ? "a.safetensors" : "b.safetensors";
  }
  put_file(target + "/a.safetensors", safetensors(headers[0].dump(), data[0]));
  put_file(target + "/b.safetensors", safetensors(headers[1].dump(), data[1]));
  put_file(target + "/model.safetensors.index.json", index.dump());
}

// A model whose tensors are larger than the smallest buffer.
void make_large(const std::string& directory) {
  constexpr std::uint64_t kHidden = 1024, kInner = 1536;
  std::filesystem::create_directory(directory);
  put_file(
      directory + "/config.json",
      R"({"num_hidden_layers": 1, "n_routed_experts": 2, "hidden_size": 1024, "moe_intermediate_size": 1536})");
  nlohmann::ordered_json header;
  std::string data;
  std::mt19937 random(1);
  for (const std::string expert : {"0", "1"})
    for (const std::string projection : {"w1", "w2", "w3"}) {
      const std::uint64_t rows = projection == "w2" ? kHidden : kInner,
                          cols = projection == "w2" ? kInner : kHidden;
      const std::string stem = "layers.0.ffn.experts." + expert + "." + projection;
      header[stem + ".weight"] = {{"dtype", "I8"},
                                  {"shape", {rows, cols / 2}},
                                  {"data_offsets", {data.size(), data.size() + rows * cols / 2}}};
      for (std::uint64_t i = 0; i < rows * cols / 2; ++i)
        data += static_cast<char>(random() & (expert == "0" ? 0xFF : 0x7F));
      header[stem + ".scale"] = {{"dtype", "F8_E8M0"},
                                 {"shape", {rows, cols / 32}},
                                 {"data_offsets", {data.size(), data.size() + rows * cols / 32}}};
      data.append(rows * cols / 32, 'x');
    }
  put_file(directory + "/model.safetensors", safetensors(header.dump(), data));
}

}  // namespace

TEST_CASE("the reference's files and figures, for every granularity and number of levels") {
  const Json golden = read_json(posix(), SOURCE_DIR "/tests/golden/ds4-mini/repack.json");
  int files = 0;
  for (const auto& [key, want] : golden.items()) {
    const auto& this_key = key;  // clang 14 cannot capture structured bindings
    CAPTURE(this_key);
    const Granularity granularity = parse_granularity(key.substr(0, key.find('/')));
    const int levels = std::stoi(key.substr(key.find("/K") + 2));
    const Scratch scratch;
    const RepackResult result =
        repack(Context{.threads = 2}, options_for(kMini, scratch / "out", granularity, levels));
    std::vector<FileFigures> figures;
    for (const RepackResult::File& file : result.files) figures.push_back(file.figures.value());
    const Json stats = Json::parse(stats_json(granularity, levels, figures).dump());
    REQUIRE(stats["files"].size() == want.size());
    for (const auto& [file, entry] : want.items()) {
      const auto& this_file = file;  // clang 14 cannot capture structured bindings
      CAPTURE(this_file);
      CHECK(sha256_hex(file_contents(scratch / ("out/" + file))) == entry["sha256"].get<std::string>());
      for (const char* figure : {"file", "n_expert_tensors", "rms_err", "rel_rms", "codebooks"})
        CHECK(stats["files"][file][figure] == entry[figure]);
      ++files;
    }
  }
  CHECK(files == 62);
}

TEST_CASE("experts that span shards are repacked as if they did not") {
  const Scratch scratch;
  spread(kMini, scratch / "spread");
  for (const Granularity granularity : kGranularities) {
    const int levels = granularity == Granularity::tensor_sym ? 4 : 3;
    const std::string whole = scratch / ("whole" + std::string(name(granularity)));
    const std::string parts = scratch / ("parts" + std::string(name(granularity)));
    const RepackResult a = repack(Context{.threads = 2}, options_for(kMini, whole, granularity, levels));
    const RepackResult b =
        repack(Context{.threads = 2}, options_for(scratch / "spread", parts, granularity, levels));
    CHECK(tensors_of(whole) == tensors_of(parts));
    CHECK(tensors_of(whole) != tensors_of(kMini));
    Deviation sum_a, sum_b;
    for (const auto& file : a.files) sum_a += file.figures->deviation;
    for (const auto& file : b.files) sum_b += file.figures->deviation;
    CHECK(sum_a.elements == sum_b.elements);
    CHECK(sum_a.error == sum_b.error);
    CHECK(sum_a.squared_error == sum_b.squared_error);
    if (granularity == Granularity::expert)  // each file's figures cover every expert that it has a part of
      for (const auto& file : b.files) {
        std::uint64_t groups = 0;
        for (const auto& [levels_text, n] : file.figures->codebooks) groups += n;
        CHECK(groups == 6);
      }
  }
}

TEST_CASE("little memory gives the same bytes") {
  const Scratch scratch;
  make_large(scratch / "in");
  for (const Granularity granularity : kGranularities) {
    const std::string roomy = scratch / ("roomy" + std::string(name(granularity)));
    const std::string tight = scratch / ("tight" + std::string(name(granularity)));
    repack(Context{.threads = 2}, options_for(scratch / "in", roomy, granularity, 4));
    const std::uint64_t memory = granularity == Granularity::block32 ? kMiB : 2 * kPiece;
    const RepackResult result =
        repack(Context{.threads = 2, .memory = memory}, options_for(scratch / "in", tight, granularity, 4));
    CHECK(result.memory.total <= memory);
    CHECK(file_contents(roomy + "/model.safetensors") == file_contents(tight + "/model.safetensors"));
    CHECK(file_contents(roomy + "/model.safetensors") != file_contents(scratch / "in/model.safetensors"));
  }
  CHECK_THROWS_WITH_AS(
      repack(Context{.memory = 1000}, options_for(scratch / "in", scratch / "x", Granularity::row, 4)),
      doctest::Contains("smallest that works is 524288"), Error);
}

TEST_CASE("a second run does nothing; a record, the size and, if asked for, the content decide") {
  const Scratch scratch;
  const RepackOptions options = options_for(kMini, scratch / "out", Granularity::tensor, 3);
  repack(Context{}, options);
  const std::string file = scratch / "out/model-00002-of-00004.safetensors", good = file_contents(file);
  struct stat first {
  }, second{};
  const auto run = [&](RepackOptions with) {
    ::stat(file.c_str(), &first);
    const RepackResult result = repack(Context{}, with);
    ::stat(file.c_str(), &second);
    CHECK(file_contents(file).size() == good.size());
    REQUIRE(result.files[0].figures.has_value());
    CHECK(result.files[0].figures->deviation.relative_rms() == doctest::Approx(0.4743686947617458));
    return first.st_ino == second.st_ino;
  };
  CHECK(run(options));

  std::string bad = good;
  bad.back() ^= 1;
  const auto written = std::filesystem::last_write_time(file);
  put_file(file, bad);
  std::filesystem::last_write_time(file, written);
  CHECK(run(options));  // size and time are those recorded
  CHECK(file_contents(file) == bad);
  RepackOptions recheck = options;
  recheck.recheck = true;
  CHECK_FALSE(run(recheck));
  CHECK(file_contents(file) == good);
  CHECK(run(recheck));

  put_file(file, good.substr(1));
  CHECK_FALSE(run(options));
  CHECK(file_contents(file) == good);
  std::filesystem::remove(scratch / "out/.repack-experts/model-00002-of-00004.safetensors.json");
  CHECK_FALSE(run(options));
  RepackOptions force = options;
  force.force = true;
  CHECK_FALSE(run(force));
}

TEST_CASE("only MXFP4 weights can be repacked") {
  const Scratch scratch;
  CHECK_THROWS_WITH_AS(repack(Context{}, options_for(SOURCE_DIR "/tests/golden/glm-fp8-mini/checkpoint",
                                                     scratch / "x", Granularity::row, 4)),
                       doctest::Contains("FP8"), Error);
}
