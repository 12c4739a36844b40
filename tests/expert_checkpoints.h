// Small checkpoints of each family, to be varied by tests.
#pragma once

#include <fmt/format.h>

#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "checkpoint/model.h"
#include "safetensors_files.h"

// A checkpoint to be varied: 3 layers of which the first is dense, 2 experts, H = 192, I = 128.
struct Variant {
  planesmith::Json config = {{"num_hidden_layers", 3},
                             {"n_routed_experts", 2},
                             {"hidden_size", 192},
                             {"moe_intermediate_size", 128}};
  std::vector<TensorSpec> tensors;

  TensorSpec& operator[](std::string_view name) {
    for (TensorSpec& tensor : tensors)
      if (tensor.name == name) return tensor;
    throw std::runtime_error("no tensor " + std::string(name));
  }
  void remove(std::string_view part) {
    const auto gone =
        std::erase_if(tensors, [&](const TensorSpec& t) { return t.name.find(part) != std::string::npos; });
    if (gone == 0) throw std::runtime_error("no tensor has " + std::string(part));
  }
  void add(std::string name, std::string dtype, std::vector<std::uint64_t> shape) {
    tensors.push_back({std::move(name), std::move(dtype), std::move(shape)});
  }
  void rename(std::string_view from, std::string_view to) {
    for (TensorSpec& tensor : tensors)
      if (const auto at = tensor.name.find(from); at != std::string::npos)
        tensor.name.replace(at, from.size(), to);
  }
};

struct Style {
  planesmith::Family family;
  std::string prefix;
  bool short_names;   // ffn.experts.0.w1, else mlp.experts.0.gate_proj
  std::string scale;  // suffix of the block scale
  std::string weight_dtype, scale_dtype;
};
inline const Style kMxfp4{planesmith::Family::mxfp4, "", true, "scale", "I8", "F8_E8M0"};
inline const Style kFp8{planesmith::Family::fp8, "model.", false, "weight_scale_inv", "F8_E4M3", "F32"};
inline const Style kNvfp4{planesmith::Family::nvfp4, "model.", false, "weight_scale", "U8", "F8_E4M3"};

inline Variant variant(const Style& style) {
  Variant out;
  if (style.family == planesmith::Family::fp8)
    out.config["quantization_config"]["weight_block_size"] = {128, 128};
  const std::string mlp = style.short_names ? "ffn" : "mlp";
  out.add(style.prefix + "layers.0.attn_norm.weight", "BF16", {192});
  for (int layer = 1; layer < 3; ++layer) {
    const std::string stem = fmt::format("{}layers.{}.{}.", style.prefix, layer, mlp);
    out.add(stem + "gate.weight", "BF16", {2, 192});
    for (int expert = 0; expert < 2; ++expert)
      for (int p = 0; p < planesmith::kProjections; ++p) {
        const char* names[][2] = {{"w1", "gate_proj"}, {"w3", "up_proj"}, {"w2", "down_proj"}};
        const std::string base =
            fmt::format("{}experts.{}.{}.", stem, expert, names[p][style.short_names ? 0 : 1]);
        const std::uint64_t rows = p == 2 ? 192 : 128, cols = p == 2 ? 128 : 192;
        const auto up = [](std::uint64_t n, std::uint64_t size) { return (n + size - 1) / size; };
        out.add(base + "weight", style.weight_dtype,
                {rows, style.family == planesmith::Family::fp8 ? cols : cols / 2});
        if (style.family == planesmith::Family::mxfp4)
          out.add(base + style.scale, style.scale_dtype, {rows, cols / 32});
        if (style.family == planesmith::Family::fp8)
          out.add(base + style.scale, style.scale_dtype, {up(rows, 128), up(cols, 128)});
        if (style.family == planesmith::Family::nvfp4) {
          out.add(base + style.scale, style.scale_dtype, {rows, cols / 16});
          out.add(base + "weight_scale_2", "F32", {});
          out.add(base + "input_scale", "F32", {});
        }
      }
  }
  return out;
}

inline planesmith::Checkpoint open_variant(const Scratch& scratch, const Variant& variant) {
  scratch.clear();
  put_file(scratch / "config.json", variant.config.dump());
  put_safetensors(scratch / "model.safetensors", variant.tensors);
  return planesmith::Checkpoint::open(planesmith::Context{}, scratch.path());
}
