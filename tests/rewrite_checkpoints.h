// Small checkpoints for tests of quantize and translate: one sparse layer in two shards, an expert in each.
#pragma once

#include <fmt/format.h>

#include <filesystem>
#include <functional>
#include <random>
#include <string>
#include <vector>

#include "base/json.h"
#include "safetensors_files.h"

namespace planesmith::test {

inline constexpr std::uint64_t kHidden = 128, kInner = 64, kExperts = 2;

// A checkpoint of one sparse layer in two shards, with these tensors for each matrix of an expert.
using Matrix =
    std::function<std::vector<TensorSpec>(const std::string& stem, std::uint64_t rows, std::uint64_t cols)>;

inline void make_checkpoint(const std::string& path, Json config, const Matrix& matrix) {
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
        // Positive scales of moderate size, those of a whole tensor 1; numbers whose exponent is small.
        const bool scalar = tensor.shape.size() == 1;
        data += tensor.dtype == "F32"              ? "\0\0\x80\x3f"[i % 4]
                : scalar && tensor.dtype == "BF16" ? "\x80\x3f"[i % 2]
                : scalar && tensor.dtype == "F16"  ? "\0\x3c"[i % 2]
                : tensor.dtype == "F8_E4M3"        ? static_cast<char>(0x30 + (drawn & 7))
                : tensor.dtype == "BF16" ? (i % 2 == 0 ? drawn : static_cast<char>(0x3d | (drawn & 0x80)))
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

inline void make_floats(const std::string& path) {
  make_checkpoint(path, Json::object(), [](const std::string& stem, std::uint64_t n, std::uint64_t k) {
    return std::vector<TensorSpec>{{stem + "weight", "BF16", {n, k}}};
  });
}

inline void make_packed(const std::string& path, const std::string& global_scale = "F32") {
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
                  [&](const std::string& stem, std::uint64_t n, std::uint64_t k) {
                    return std::vector<TensorSpec>{{stem + "weight_global_scale", global_scale, {1}},
                                                   {stem + "weight_packed", "U8", {n, k / 2}},
                                                   {stem + "weight_scale", "F8_E4M3", {n, k / 16}}};
                  });
}

}  // namespace planesmith::test
