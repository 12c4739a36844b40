#include "synthetic/model.h"

#include <fmt/format.h>

#include <array>
#include <utility>

#include "checkpoint/family.h"

namespace planesmith::synthetic {
namespace {

using Shape = std::vector<std::uint64_t>;

constexpr std::uint64_t kVocabulary = 512, kHeads = 4, kHeadDim = 64, kQueryRank = 128, kExpertsPerToken = 2;
constexpr std::uint64_t kHashLayers = 3;  // DeepSeek-V4 routes its first layers by token id

constexpr std::uint64_t ceil_div(std::uint64_t a, std::uint64_t b) {
  return (a + b - 1) / b;
}

// What an exporter chose among the dtypes and suffixes of a family.
struct Exported {
  Family family;
  Dtype weight, scale;
  std::string_view scale_suffix;
};
constexpr Exported kDeepseekFp8{Family::fp8, Dtype::f8_e4m3, Dtype::f8_e8m0, "scale"},
    kDeepseekMxfp4{Family::mxfp4, Dtype::i8, Dtype::f8_e8m0, "scale"},
    kGlmFp8{Family::fp8, Dtype::f8_e4m3, Dtype::f32, "weight_scale_inv"},
    kModelopt{Family::nvfp4, Dtype::u8, Dtype::f8_e4m3, "weight_scale"};

class Names {
 public:
  explicit Names(std::string prefix) : prefix_(std::move(prefix)) {}
  std::vector<Tensor> take() { return std::move(tensors_); }

  void add(const std::string& name, Dtype dtype, Shape shape) {
    Tensor tensor;
    tensor.name = prefix_ + name;
    tensor.dtype = dtype;
    tensor.shape = std::move(shape);
    tensors_.push_back(std::move(tensor));
  }
  void norm(const std::string& name, std::uint64_t n) { add(name + ".weight", Dtype::bf16, {n}); }
  void plain(const std::string& name, std::uint64_t n, std::uint64_t k) {
    add(name + ".weight", Dtype::bf16, {n, k});
  }
  // A projection [n, k] as its family stores it.
  void quantized(const Exported& how, const std::string& name, std::uint64_t n, std::uint64_t k) {
    const FamilyTraits& family = traits(how.family);
    const std::uint64_t rows = family.block_rows == 0 ? kFp8Block : family.block_rows,
                        cols = family.block_cols == 0 ? kFp8Block : family.block_cols;
    if (family.has_scale_2) add(name + ".input_scale", Dtype::f32, {});
    add(name + ".weight", how.weight, weight_shape(family, how.weight, n, k));
    add(fmt::format("{}.{}", name, how.scale_suffix), how.scale, {ceil_div(n, rows), ceil_div(k, cols)});
    if (family.has_scale_2) add(name + ".weight_scale_2", Dtype::f32, {});
  }

 private:
  std::string prefix_;
  std::vector<Tensor> tensors_;
};

void deepseek_layer(Names& names, const Spec& spec, const std::string& layer, bool hash_routed) {
  const auto [layers, experts, hidden, inner, drafts] = spec.geometry;
  const auto linear = [&](const std::string& name, std::uint64_t n, std::uint64_t k) {
    names.quantized(kDeepseekFp8, layer + name, n, k);
  };
  names.add(layer + "attn.attn_sink", Dtype::f32, {kHeads});
  names.norm(layer + "attn.kv_norm", kHeadDim);
  names.norm(layer + "attn.q_norm", kQueryRank);
  linear("attn.wkv", kHeadDim, hidden);
  linear("attn.wo_b", hidden, kQueryRank);
  linear("attn.wq_a", kQueryRank, hidden);
  linear("attn.wq_b", kHeads * kHeadDim, kQueryRank);
  names.norm(layer + "attn_norm", hidden);
  for (std::uint64_t e = 0; e < experts; ++e) {
    names.quantized(kDeepseekMxfp4, fmt::format("{}ffn.experts.{}.w1", layer, e), inner, hidden);
    names.quantized(kDeepseekMxfp4, fmt::format("{}ffn.experts.{}.w2", layer, e), hidden, inner);
    names.quantized(kDeepseekMxfp4, fmt::format("{}ffn.experts.{}.w3", layer, e), inner, hidden);
  }
  if (hash_routed) {
    names.add(layer + "ffn.gate.tid2eid", Dtype::i64, {kVocabulary, kExpertsPerToken});
  } else {
    names.add(layer + "ffn.gate.bias", Dtype::f32, {experts});
  }
  names.plain(layer + "ffn.gate", experts, hidden);
  linear("ffn.shared_experts.w1", inner, hidden);
  linear("ffn.shared_experts.w2", hidden, inner);
  linear("ffn.shared_experts.w3", inner, hidden);
  names.norm(layer + "ffn_norm", hidden);
  names.add(layer + "hc_attn_base", Dtype::f32, {24});
  names.add(layer + "hc_ffn_base", Dtype::f32, {24});
}

std::vector<Tensor> deepseek(const Spec& spec) {
  Names names("");
  names.plain("embed", kVocabulary, spec.geometry.hidden);
  for (std::uint64_t l = 0; l < spec.geometry.layers; ++l)
    deepseek_layer(names, spec, fmt::format("layers.{}.", l), l < kHashLayers);
  names.plain("head", kVocabulary, spec.geometry.hidden);
  for (std::uint64_t m = 0; m < spec.mtp_layers; ++m) {
    const std::string layer = fmt::format("mtp.{}.", m);
    deepseek_layer(names, spec, layer, false);
    names.norm(layer + "main_norm", spec.geometry.hidden);
    names.quantized(kDeepseekFp8, layer + "main_proj", spec.geometry.hidden, 3 * spec.geometry.hidden);
  }
  names.norm("norm", spec.geometry.hidden);
  return names.take();
}

constexpr std::array kGluNames = {"down_proj", "gate_proj", "up_proj"};

// A layer of the GLM and Kimi models; the experts' number format is what the style says, the rest is FP8 or
// plain.
void glm_layer(Names& names, const Spec& spec, std::uint64_t l, bool sparse) {
  const auto [layers, experts, hidden, inner, drafts] = spec.geometry;
  const bool is_fp8 = spec.style == Style::glm_fp8;
  const std::string layer = fmt::format("model.layers.{}.", l);
  const auto linear = [&](const std::string& name, std::uint64_t n, std::uint64_t k) {
    if (is_fp8) {
      names.quantized(kGlmFp8, layer + name, n, k);
    } else {
      names.plain(layer + name, n, k);
    }
  };
  const auto glu = [&, hidden = hidden](const std::string& name, std::uint64_t width) {
    for (const std::string part : kGluNames)
      part == "down_proj" ? linear(name + part, hidden, width) : linear(name + part, width, hidden);
  };
  names.norm(layer + "input_layernorm", hidden);
  names.norm(layer + "post_attention_layernorm", hidden);
  linear("self_attn.q_a_proj", kQueryRank, hidden);
  linear("self_attn.q_b_proj", kHeads * kHeadDim, kQueryRank);
  linear("self_attn.kv_a_proj_with_mqa", kHeadDim, hidden);
  linear("self_attn.o_proj", hidden, kHeads * kHeadDim);
  names.norm(layer + "self_attn.q_a_layernorm", kQueryRank);
  if (!sparse) return glu("mlp.", 2 * inner);
  for (std::uint64_t e = 0; e < experts; ++e) {
    for (const std::string part : kGluNames) {
      const std::string name = fmt::format("{}mlp.experts.{}.{}", layer, e, part);
      const std::uint64_t n = part == "down_proj" ? hidden : inner, k = part == "down_proj" ? inner : hidden;
      names.quantized(is_fp8 ? kGlmFp8 : kModelopt, name, n, k);
    }
  }
  names.add(layer + "mlp.gate.e_score_correction_bias", Dtype::f32, {experts});
  names.plain(layer + "mlp.gate", experts, hidden);
  glu("mlp.shared_experts.", inner);
}

std::vector<Tensor> glm(const Spec& spec) {
  const bool kimi = spec.style == Style::kimi_nvfp4;
  const std::uint64_t hidden = spec.geometry.hidden;
  Names names(kimi ? "language_model." : "");
  names.plain("model.embed_tokens", kVocabulary, hidden);
  for (std::uint64_t l = 0; l < spec.geometry.layers; ++l) glm_layer(names, spec, l, l >= spec.dense_layers);
  for (std::uint64_t l = spec.geometry.layers; l < spec.geometry.layers + spec.mtp_layers; ++l) {
    glm_layer(names, spec, l, true);  // the drafter is a layer beyond the last
    const std::string layer = fmt::format("model.layers.{}.", l);
    names.plain(layer + "eh_proj", hidden, 2 * hidden);
    names.norm(layer + "enorm", hidden);
    names.norm(layer + "hnorm", hidden);
    names.norm(layer + "shared_head.norm", hidden);
  }
  names.norm("model.norm", hidden);
  names.plain("lm_head", kVocabulary, hidden);
  std::vector<Tensor> tensors = names.take();
  if (kimi) {
    Names tower("vision_tower.");
    tower.plain("patch_embed.proj", 64, 192);
    for (Tensor& tensor : tower.take()) tensors.push_back(std::move(tensor));
  }
  return tensors;
}

}  // namespace

std::vector<Tensor> tensors_of(const Spec& spec) {
  std::vector<Tensor> tensors = spec.style == Style::deepseek_v4 ? deepseek(spec) : glm(spec);
  for (Tensor& tensor : tensors) {
    tensor.size = bits(tensor.dtype) / 8;
    for (const std::uint64_t n : tensor.shape) tensor.size *= n;
  }
  return tensors;
}

Json config_of(const Spec& spec) {
  const bool deepseek = spec.style == Style::deepseek_v4;
  Json config = {{"architectures", {deepseek ? "DeepseekV4ForCausalLM" : "GlmMoeDsaForCausalLM"}},
                 {"model_type", deepseek ? "deepseek_v4" : "glm_moe_dsa"},
                 {"hidden_act", "silu"},
                 {"hidden_size", spec.geometry.hidden},
                 {"moe_intermediate_size", spec.geometry.intermediate},
                 {"n_routed_experts", spec.geometry.experts},
                 {"n_shared_experts", 1},
                 {"num_experts_per_tok", kExpertsPerToken},
                 {"num_hidden_layers", spec.geometry.layers},
                 {"num_nextn_predict_layers", spec.mtp_layers},
                 {"vocab_size", kVocabulary}};
  if (deepseek) {
    config["num_hash_layers"] = kHashLayers;
    config["expert_dtype"] = "fp4";
  } else {
    config["first_k_dense_replace"] = spec.dense_layers;
  }
  if (deepseek || spec.style == Style::glm_fp8) {
    config["quantization_config"] = {
        {"quant_method", "fp8"}, {"fmt", "e4m3"}, {"weight_block_size", {kFp8Block, kFp8Block}}};
    if (deepseek) config["quantization_config"]["scale_fmt"] = "ue8m0";
  } else {
    config["quantization_config"] = {
        {"quant_method", "modelopt"}, {"quant_algo", "NVFP4"}, {"group_size", kNvfp4Group}};
  }
  if (spec.style == Style::kimi_nvfp4)
    return {{"architectures", {"KimiK25ForConditionalGeneration"}},
            {"model_type", "kimi_k25"},
            {"text_config", config}};
  return config;
}

}  // namespace planesmith::synthetic
