#include "checkpoint/layout.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "checkpoint/family.h"
#include "checkpoint/tensor_name.h"
#include "format/slice.h"

namespace planesmith {
namespace {

std::string lower(std::string text) {
  for (char& c : text) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return text;
}
std::string text_value(const Json& config, std::string_view key) {
  const Json& value = config_value(config, key);
  return value.is_string() ? value.get<std::string>() : "";
}

bool is_float(Dtype dtype) {
  return dtype == Dtype::bf16 || dtype == Dtype::f16 || dtype == Dtype::f32;
}

// The tensors of the first routed expert, and of the first layer's fused experts, by the end of their names.
struct Seen {
  std::string module;                          // "model.layers.1.mlp.experts.0.gate_proj"
  std::map<std::string, const Tensor*> one;    // by word, of that module
  std::map<std::string, const Tensor*> fused;  // by what follows "experts.", of that layer
  bool biases = false;
  std::string first;            // the name of the first of these tensors
  bool servable = false;        // whether the builders know the names of any of these experts
  const Tensor* mlx = nullptr;  // the first of MLX's experts, which have other names
  // Weights of single experts, the first of each kind: float, and quantized.
  const Tensor *plain = nullptr, *quantized = nullptr;
};

constexpr std::string_view kExperts = ".experts.";

Seen look(const Json& config, const std::vector<const Tensor*>& tensors) {
  const Json& layers = config_value(config, "num_hidden_layers");
  const std::uint64_t count =
      layers.is_number_unsigned() ? layers.get<std::uint64_t>() : std::uint64_t{1} << 32;
  Seen seen;
  std::string fused_stem;
  for (const Tensor* tensor : tensors) {
    const std::size_t at = tensor->name.find(kExperts);
    if (at == std::string::npos) {
      if (seen.mlx == nullptr && tensor->name.find(".switch_mlp.") != std::string::npos) seen.mlx = tensor;
      continue;
    }
    const TensorName parsed = parse_tensor_name(tensor->name, count, tensor->shape.size());
    if (parsed.kind == TensorName::Kind::other || !parsed.main_layer) continue;  // a drafter's, or shared
    const std::string rest = tensor->name.substr(at + kExperts.size());
    const auto known = [&](const std::string& module) {
      return parse_tensor_name(module + ".weight", count, 2).kind == TensorName::Kind::expert;
    };
    if (seen.first.empty()) seen.first = tensor->name;
    if (!rest.empty() && std::isdigit(static_cast<unsigned char>(rest[0])) != 0) {
      // bitsandbytes and quanto: "...gate_proj.weight.absmax"
      const std::size_t below = tensor->name.find(".weight.", at);
      const std::size_t dot = below != std::string::npos ? below : tensor->name.rfind('.');
      const bool bare = std::count(rest.begin(), rest.end(), '.') == 1;  // "0.gate_proj"
      const std::string module = bare ? tensor->name : tensor->name.substr(0, dot);
      if (seen.module.empty()) seen.module = module;
      seen.servable = seen.servable || known(module);
      if (tensor->name.ends_with(".weight") || tensor->name.ends_with(".weight_packed")) {
        const Tensor*& first = is_float(tensor->dtype) ? seen.plain : seen.quantized;
        if (first == nullptr) first = tensor;
      }
      if (module == seen.module) seen.one.emplace(bare ? "weight" : tensor->name.substr(dot + 1), tensor);
    } else {
      if (fused_stem.empty()) fused_stem = tensor->name.substr(0, at);
      seen.servable = seen.servable || known(tensor->name.substr(0, at + kExperts.size()) + "0.gate_proj");
      if (tensor->name.starts_with(fused_stem)) seen.fused.emplace(rest, tensor);
      seen.biases |= rest.ends_with("bias");
    }
  }
  return seen;
}

const Tensor* find(const std::map<std::string, const Tensor*>& words, std::string_view word) {
  const auto at = words.find(std::string(word));
  return at == words.end() ? nullptr : at->second;
}

constexpr std::string_view kTranslate =
    "repack-experts translate SOURCE TARGET writes it in a layout that is served";
constexpr std::string_view kStartAgain =
    "it is not served and no lossless translation makes it so; start from the model's float weights: "
    "repack-experts quantize SOURCE TARGET --to nvfp4";
constexpr std::string_view kQuantize =
    "repack-experts quantize SOURCE TARGET --to nvfp4 makes NVFP4 experts of it";

class Judge {
 public:
  Judge(const Json& config, const std::vector<const Tensor*>& tensors)
      : config_(config),
        recipe_(read_recipe(config_value(config, "quantization_config"))),
        seen_(look(config, tensors)) {}

  LayoutVerdict operator()() const {
    if (seen_.module.empty() && seen_.fused.empty()) {
      if (seen_.mlx == nullptr) return {};
      return {Lead::none, fmt::format("its experts are in MLX's layout (switch_mlp, such as '{}'), which is "
                                      "not served; start from the model's weights as published for "
                                      "transformers, not from a conversion for MLX",
                                      seen_.mlx->name)};
    }
    if (seen_.biases || has_ending("_blocks"))
      return {Lead::none, fmt::format("its experts are {}, fused and with biases as gpt-oss has them; the "
                                      "engine does not serve such experts, and no translation exists",
                                      named(has_ending("_blocks") ? "MXFP4" : "floats"))};
    const LayoutVerdict verdict = seen_.module.empty() ? of_fused() : of_one();
    // Where the builders read the layout, find_experts() names the tensor.
    if ((verdict.lead == Lead::translate || verdict.lead == Lead::quantize) && seen_.plain != nullptr &&
        seen_.quantized != nullptr)
      return {Lead::none, fmt::format("some of its experts are {}, not quantized ('{}'), and some are {} "
                                      "('{}'); all must be quantized alike: {}",
                                      dtype_text(*seen_.plain), seen_.plain->name, named("quantized"),
                                      seen_.quantized->name, kStartAgain)};
    // Neither quantizing nor translating changes such names. Without a recipe find_experts() names the
    // tensor.
    if (verdict.lead != Lead::none && !verdict.sentence.empty() && !seen_.servable)
      return {
          Lead::none,
          fmt::format("its experts are {}, named like '{}'; the engine serves only gate_proj, up_proj and "
                      "down_proj, or w1, w3 and w2, in .experts. below mlp, ffn or block_sparse_moe",
                      verdict.lead == Lead::quantize ? "floats" : named("quantized"), seen_.first)};
    // A layout that would be read, of an architecture that the engine does not serve (Mixtral).
    if (verdict.lead != Lead::none)
      if (const std::string type = lower(text_value(config_, "model_type"));
          config_value(config_, "moe_intermediate_size").is_null() &&
          seen_.module.find("block_sparse_moe") != std::string::npos)
        return {Lead::none,
                fmt::format("its experts are {} under block_sparse_moe in the names of {}, an architecture "
                            "whose experts the engine does not serve",
                            verdict.lead == Lead::quantize ? "floats" : named("quantized"),
                            type.empty() ? "another model" : type)};
    return verdict;
  }

 private:
  bool has_ending(std::string_view ending) const {
    return std::any_of(seen_.fused.begin(), seen_.fused.end(),
                       [&](const auto& entry) { return entry.first.ends_with(ending); });
  }
  // "NVFP4 in llm-compressor's layout (compressed-tensors nvfp4-pack-quantized)": by the experts' group.
  std::string named(std::string_view otherwise) const {
    const QuantGroup* group = recipe_.group_of(seen_.module);
    if (group == nullptr && !recipe_.groups.empty()) group = &recipe_.groups.front();
    const std::string format = group != nullptr ? group->format : recipe_.format;
    const FormatRow* row = find_format(recipe_.method, format);
    if (recipe_.method.empty()) return std::string(otherwise);
    const std::string of_all =
        recipe_.format.empty() || recipe_.format == format ? "" : recipe_.format + ": ";
    return fmt::format("{} ({}{}{}{})", row != nullptr ? row->what : otherwise, recipe_.method,
                       format.empty() ? "" : " ", of_all, format);
  }
  // By the recipe, or because several are packed in a word.
  bool is_integer() const {
    const QuantGroup* group = recipe_.group_of(seen_.module.empty() ? std::string(kExperts) : seen_.module);
    return (group != nullptr && group->scheme == Scheme::integer) ||
           std::any_of(seen_.fused.begin(), seen_.fused.end(), [](const auto& entry) {
             return entry.second->dtype == Dtype::i32 || entry.second->dtype == Dtype::u32;
           });
  }
  LayoutVerdict translate(std::string_view otherwise) const {
    return {Lead::translate, fmt::format("its experts are {}; {}", named(otherwise), kTranslate)};
  }
  LayoutVerdict not_served(std::string_view otherwise, std::string_view detail = "") const {
    std::string what = named(otherwise);
    if (what.find(detail) == std::string::npos) what += fmt::format(", {}", detail);
    return {Lead::none, fmt::format("its experts are {}; {}", what, kStartAgain)};
  }

  // Whether a fused tensor is [E, H, 2I] or [E, I, H] instead of [E, 2I, H] or [E, H, I].
  bool transposed(const Tensor& tensor) const {
    const Json &hidden = config_value(config_, "hidden_size"),
               &intermediate = config_value(config_, "moe_intermediate_size");
    if (!hidden.is_number_unsigned() || !intermediate.is_number_unsigned() || tensor.shape.size() != 3)
      return false;
    std::uint64_t rows = hidden.get<std::uint64_t>(), cols = intermediate.get<std::uint64_t>();
    if (tensor.name.find("gate_up_proj") != std::string::npos) std::swap(rows, cols), rows *= 2;
    return rows != cols && tensor.shape[1] == cols && tensor.shape[2] == rows;
  }

  LayoutVerdict of_fused() const {
    const auto weight = std::find_if(seen_.fused.begin(), seen_.fused.end(), [](const auto& entry) {
      return entry.first == "gate_up_proj" || entry.first == "gate_up_proj.weight" ||
             entry.first == "down_proj" || entry.first == "down_proj.weight";
    });
    if (weight != seen_.fused.end() && is_float(weight->second->dtype))
      return {Lead::quantize,
              fmt::format("is not quantized yet: its experts are {}, all of a layer in one tensor; {}",
                          dtype_text(*weight->second),
                          transposed(*weight->second)
                              ? "this architecture stores the matrix transposed, which is not supported"
                              : kQuantize)};
    if (is_integer()) return not_served("packed integers");
    return translate("quantized, all of a layer in one tensor");
  }

  LayoutVerdict of_one() const {
    const Tensor *weight = find(seen_.one, "weight"), *packed = find(seen_.one, "weight_packed"),
                 *scale = find(seen_.one, "weight_scale");
    for (const char* word : {"qweight", "qzeros", "scales", "g_idx"})
      if (find(seen_.one, word) != nullptr) return not_served("packed integers");
    if (find(seen_.one, "pre_quant_scale") != nullptr)
      return not_served("quantized", "with a scale for each column of the activations (pre_quant_scale)");
    if (packed != nullptr) {
      if (packed->dtype == Dtype::i32 || packed->dtype == Dtype::u32) return not_served("packed integers");
      return translate(scale != nullptr && scale->dtype == Dtype::f8_e4m3
                           ? "NVFP4 in llm-compressor's names"
                           : "MXFP4 in llm-compressor's names");
    }
    if (weight == nullptr)
      return of_another_tool() ? not_served("quantized", such_as(*seen_.one.begin()->second))
                               : LayoutVerdict{};
    if (is_float(weight->dtype) && scale != nullptr)
      return {
          Lead::none,
          fmt::format("its experts are {} with scales beside them ('{}'), as a quantizer keeps them before "
                      "it packs them; have it save them compressed, or start from the model's own float "
                      "weights: repack-experts quantize SOURCE TARGET --to nvfp4",
                      dtype_text(*weight), scale->name)};
    if (is_float(weight->dtype))
      return {Lead::quantize,
              fmt::format("is not quantized yet: its experts are {}; {}", dtype_text(*weight), kQuantize)};
    if (!seen_.fused.empty() && weight->dtype == Dtype::f8_e4m3 &&
        find(seen_.one, "weight_scale_inv") == nullptr && scale == nullptr &&
        find(seen_.one, "scale") == nullptr)
      return {Lead::translate, fmt::format("its experts are {} with the scales of all experts of a layer in "
                                           "one tensor, as transformers 5.24 writes them; {}",
                                           named("FP8"), kTranslate)};
    if (weight->dtype == Dtype::f8_e4m3)
      for (const char* word : {"weight_scale", "weight_scale_inv", "scale"})
        if (const Tensor* of_weight = find(seen_.one, word)) return of_fp8(*weight, *of_weight);
    if (is_integer()) return not_served("packed integers");
    if (scale == nullptr) return as_it_is();
    const bool power = scale->dtype == Dtype::u8 || scale->dtype == Dtype::f8_e8m0;
    if (power && (recipe_.method == "modelopt" || recipe_.method == "quark") && !is_deepseek_v4(config_))
      return translate("MXFP4");
    if (weight->dtype == Dtype::i8 && is_float(scale->dtype)) return not_served("int8");
    return as_it_is();
  }

  LayoutVerdict of_fp8(const Tensor& weight, const Tensor& scale) const {
    if (scale.dtype == Dtype::f16 && scale.shape.size() == 2 && recipe_.method == "fp8" &&
        names_block_size(config_))
      return translate("FP8 in blocks");
    // Without a quantizer's own description only the tensors tell, and find_experts() judges each of them.
    if (recipe_.method.empty())  // or it is in hf_quant_config.json alone
      return is_block_grid(scale.shape) ? translate("FP8 in blocks, in modelopt's names") : as_it_is();
    if (recipe_.method == "fp8" && names_block_size(config_)) return as_it_is();
    const std::uint64_t rows = weight.shape.empty() ? 0 : weight.shape[0];
    const QuantGroup* group = recipe_.group_of(seen_.module);
    const Scheme scheme = group != nullptr ? group->scheme : Scheme::unknown;
    if (scale.dtype == Dtype::u8 || scheme == Scheme::mxfp8)
      return not_served("MXFP8", "a power of two for each 32");
    if (is_block_grid(scale.shape)) return translate("FP8 in blocks");
    if (scale.shape.size() > 2)
      return not_served("FP8", fmt::format("with scales of shape {}", shape_text(scale.shape)));
    if (scale.shape.size() < 2)
      return not_served("FP8", scale.size <= 4 ? "with one scale for a tensor" : "with a scale for each row");
    if (scheme == Scheme::fp8_channel ||
        (scheme != Scheme::fp8_block && scale.shape[1] == 1 && scale.shape[0] == rows))
      return not_served("FP8", "with a scale for each row");
    return names_block_size(config_) ? as_it_is() : translate("FP8 in blocks");
  }

  // Of a quantizer none of whose formats is served.
  bool of_another_tool() const { return !recipe_.method.empty() && !may_be_served(recipe_.method); }

  static std::string such_as(const Tensor& tensor) {
    return fmt::format("in {} tensors such as '{}'", dtype_text(tensor), tensor.name);
  }

  ProjectionTensors tensors() const {
    ProjectionTensors out;
    for (const Suffix& suffix : suffixes())
      if (const Tensor* tensor = find(seen_.one, suffix.text))
        out.of[static_cast<std::size_t>(suffix.role)] = tensor;
    return out;
  }

  LayoutVerdict as_it_is() const {
    if (recipe_.method.empty()) return {};
    const Tensor *weight = find(seen_.one, "weight"), *scale = find(seen_.one, "weight_scale");
    if (weight != nullptr && !family_of(tensors()))
      return of_another_tool() ? not_served("quantized", such_as(*weight)) : LayoutVerdict{};
    // NVFP4 has a scale for each 16.
    if (scale != nullptr && scale->dtype == Dtype::f8_e4m3 && weight != nullptr &&
        weight->dtype == Dtype::u8 && weight->shape.size() == 2 && scale->shape.size() == 2 &&
        scale->shape[1] * kMxfp4Group == weight->shape[1] * 2)
      return not_served("quantized", fmt::format("with a scale for each {}", kMxfp4Group));
    // DeepSeek-V4's "fp8" describes the modules besides its experts, which are packed e2m1.
    const bool packed = weight != nullptr && (weight->dtype == Dtype::i8 || weight->dtype == Dtype::u8 ||
                                              weight->dtype == Dtype::f4);
    return {Lead::build,
            fmt::format("its experts are {}{}; build-planescache reads it as it is",
                        packed && recipe_.method == "fp8" ? "MXFP4 beside " : "", named("quantized"))};
  }

  const Json& config_;
  const QuantRecipe recipe_;
  const Seen seen_;
};

}  // namespace

bool is_block_grid(const std::vector<std::uint64_t>& shape) {
  return shape.size() == 4 && shape[1] == 1 && shape[3] == 1;
}

bool names_block_size(const Json& config) {
  const Json& quantization = config_value(config, "quantization_config");
  return quantization.is_object() && quantization.value("weight_block_size", Json()).is_array();
}

bool is_deepseek_v4(const Json& config) {
  if (lower(text_value(config, "model_type")).starts_with("deepseek_v4")) return true;
  const Json& architectures = config_value(config, "architectures");
  return architectures.is_array() && !architectures.empty() && architectures[0].is_string() &&
         architectures[0].get<std::string>().starts_with("DeepseekV4");
}

LayoutVerdict judge_layout(const Json& config, const std::vector<const Tensor*>& tensors) {
  return Judge(config, tensors)();
}

LayoutVerdict judge_layout(const Checkpoint& checkpoint) {
  std::vector<const Tensor*> tensors;
  for (const Tensor& tensor : checkpoint.tensors()) tensors.push_back(&tensor);
  return judge_layout(checkpoint.config(), tensors);
}

}  // namespace planesmith
