// repack-experts quantize and translate when operations fail and when the process or the machine stops at any
// moment, with one thread and with three: no wrong shard has a final name, the index appears only after all
// that it lists, the source is unchanged, and the next run finishes the work.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <cerrno>
#include <map>
#include <random>
#include <tuple>

#include "base/error.h"
#include "fault/fault_os.h"
#include "rewrite/quantize.h"
#include "rewrite/translate.h"
#include "safetensors_files.h"

using namespace planesmith;

namespace {

constexpr std::uint64_t kHidden = 128, kInner = 64, kExperts = 2;

// A checkpoint of one sparse layer in two shards, with these tensors for each matrix of an expert.
using Matrix = std::vector<TensorSpec> (*)(const std::string& stem, std::uint64_t rows, std::uint64_t cols);

void make_checkpoint(const std::string& path, Json config, Matrix matrix) {
  std::filesystem::create_directories(path);
  config.update({{"model_type", "glm_moe_dsa"},
                 {"architectures", {"GlmMoeDsaForCausalLM"}},
                 {"num_hidden_layers", 1},
                 {"n_routed_experts", kExperts},
                 {"hidden_size", kHidden},
                 {"moe_intermediate_size", kInner}});
  put_file(path + "/config.json", config.dump());
  put_file(path + "/tokenizer.json", "{}");
  Json map = Json::object();
  std::minstd_rand random(7);
  for (std::uint64_t e = 0; e < kExperts; ++e) {
    const std::string name = fmt::format("model-{}.safetensors", e);
    std::vector<TensorSpec> tensors;
    if (e == 0) tensors.push_back({"model.layers.0.mlp.gate.weight", "BF16", {kExperts, kHidden}});
    for (const char* projection : {"gate", "up", "down"}) {
      const bool down = projection[0] == 'd';
      for (TensorSpec& tensor : matrix(fmt::format("model.layers.0.mlp.experts.{}.{}_proj.", e, projection),
                                       down ? kHidden : kInner, down ? kInner : kHidden))
        tensors.push_back(std::move(tensor));
    }
    nlohmann::ordered_json header = nlohmann::ordered_json::object();
    std::string data;
    for (const TensorSpec& tensor : tensors) {
      const std::size_t begin = data.size();
      for (std::uint64_t i = 0; i < tensor.bytes(); ++i) {
        const char drawn = static_cast<char>(random() >> 8);
        // Positive scales of moderate size; numbers whose exponent is small.
        data += tensor.dtype == "F32"       ? "\0\0\x80\x3f"[i % 4]
                : tensor.dtype == "F8_E4M3" ? static_cast<char>(0x30 + (drawn & 7))
                : tensor.dtype == "BF16"    ? (i % 2 == 0 ? drawn : static_cast<char>(0x3d | (drawn & 0x80)))
                                            : drawn;
      }
      header[tensor.name] = {
          {"dtype", tensor.dtype}, {"shape", tensor.shape}, {"data_offsets", {begin, data.size()}}};
      map[tensor.name] = name;
    }
    put_file(path + "/" + name, safetensors(header.dump(), data));
  }
  put_file(path + "/model.safetensors.index.json", Json{{"weight_map", map}}.dump());
}

void make_floats(const std::string& path) {
  make_checkpoint(path, Json::object(), [](const std::string& stem, std::uint64_t n, std::uint64_t k) {
    return std::vector<TensorSpec>{{stem + "weight", "BF16", {n, k}}};
  });
}

void make_packed(const std::string& path) {
  const Json weights = {{"num_bits", 4},    {"type", "float"},   {"strategy", "tensor_group"},
                        {"group_size", 16}, {"symmetric", true}, {"dynamic", false}};
  const Json group = {{"format", "nvfp4-pack-quantized"},
                      {"targets", {"Linear"}},
                      {"weights", weights},
                      {"input_activations", nullptr}};
  make_checkpoint(path,
                  {{"quantization_config",
                    {{"quant_method", "compressed-tensors"},
                     {"format", "nvfp4-pack-quantized"},
                     {"ignore", {"model.layers.0.mlp.gate"}},
                     {"config_groups", {{"group_0", group}}}}}},
                  [](const std::string& stem, std::uint64_t n, std::uint64_t k) {
                    return std::vector<TensorSpec>{{stem + "weight_global_scale", "F32", {1}},
                                                   {stem + "weight_packed", "U8", {n, k / 2}},
                                                   {stem + "weight_scale", "F8_E4M3", {n, k / 16}}};
                  });
}

class Bench {
  const Scratch scratch_;

 public:
  const std::string root = scratch_ / "root";
  int threads = 1;

  explicit Bench(bool quantizes) : quantizes_(quantizes) {
    (quantizes ? make_floats : make_packed)(scratch_ / "source");
    source_ = contents(scratch_ / "source");
    options_.source = scratch_ / "source";
    options_.link = LinkMode::copy;
    options_.target = scratch_ / "want";
    work(posix());
    want_ = contents(options_.target);
    REQUIRE(want_.contains("model-1.safetensors"));
    REQUIRE(want_ != source_);
    std::filesystem::create_directory(root);
    options_.target = root + "/out";
  }
  void prepare() const { std::filesystem::remove_all(options_.target); }
  void work(Os& os) const {
    const Context context{.os = os, .threads = threads};
    if (quantizes_)
      quantize(context, Fp4::nvfp4, options_);
    else
      translate(context, {.rewrite = options_});
  }
  // What is there is right, then the work is done again and everything is right.
  void check(const FaultOs& os) const {
    CAPTURE(os.hit_at());
    CHECK((contents(options_.source) == source_));
    if (std::filesystem::exists(options_.target)) {
      const Files now = contents(options_.target);
      for (const auto& [path, bytes] : now)
        if (!path.ends_with(".tmp")) CHECK((bytes == want_.at(path)));
      if (now.contains("model.safetensors.index.json"))
        for (const auto& [path, bytes] : want_) CHECK(now.contains(path));
    }
    work(posix());
    CHECK((contents(options_.target) == want_));
  }

 private:
  using Files = std::map<std::string, std::string>;
  // By name, records aside.
  static Files contents(const std::string& directory) {
    Files out;
    for (const std::string& name : list_dir(posix(), directory))
      if (name[0] != '.') out[name] = file_contents(directory + "/" + name);
    return out;
  }
  const bool quantizes_;
  RewriteOptions options_;
  Files source_, want_;
};

}  // namespace

TEST_CASE("quantize and translate: every operation that can fail fails once, or for good") {
  for (const bool quantizes : {true, false}) {
    Bench bench(quantizes);
    std::uint64_t faults = 0;
    for (const auto& [threads, error, lasting] : {std::tuple{1, EIO, false}, std::tuple{1, ENOSPC, true},
                                                  std::tuple{3, EMFILE, false}, std::tuple{3, EIO, true}}) {
      bench.threads = threads;
      faults += fail_each(
          bench.root, error, lasting, [&] { bench.prepare(); }, [&](Os& os) { bench.work(os); },
          [&](const FaultOs& os) { bench.check(os); });
    }
    MESSAGE("operations failed in turn: ", faults);
    CHECK(faults > 200);
  }
}

TEST_CASE("quantize and translate: the power goes after every operation") {
  for (const bool quantizes : {true, false}) {
    Bench bench(quantizes);
    for (const int threads : {1, 3}) {
      bench.threads = threads;
      const std::uint64_t crashes = crash_each(
          bench.root, [&] { bench.prepare(); }, [&](Os& os) { bench.work(os); },
          [&](const FaultOs& os) { bench.check(os); });
      CHECK(crashes > 50);
    }
  }
}

TEST_CASE("quantize: short and interrupted transfers change nothing") {
  Bench bench(true);
  for (const int threads : {1, 3}) {
    bench.threads = threads;
    bench.prepare();
    FaultOs os(bench.root, Fault::slow_and_interrupted());
    bench.work(os);
    bench.check(os);
  }
}
