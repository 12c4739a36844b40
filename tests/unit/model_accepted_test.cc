// Routed experts: what the format allows, and what is left alone.
#include <doctest/doctest.h>

#include <functional>
#include <map>
#include <optional>

#include "base/error.h"
#include "expert_checkpoints.h"

using namespace planesmith;

namespace {

struct Accepted {
  const char* what;
  Style style;
  std::function<void(Variant&)> change;
  std::function<bool(const Model&)> holds;
};

std::vector<Accepted> accepted_variants() {
  const auto as_it_is = [](Variant&) {};
  const auto family = [](Family f) { return [=](const Model& m) { return m.family == f; }; };
  const auto kind = [](std::string name, std::uint64_t n) {
    return
        [=](const Model& m) { return m.left_alone.count(name) == 1 && m.left_alone.at(name).tensors == n; };
  };
  const auto plain = [](const Model&) { return true; };
  std::vector<Accepted> rows = {
      {"I8 weights as U8",
       {Family::mxfp4, "", true, "scale", "U8", "F8_E8M0"},
       as_it_is,
       family(Family::mxfp4)},
      {"E8M0 scales as U8", {Family::mxfp4, "", true, "scale", "I8", "U8"}, as_it_is, family(Family::mxfp4)},
      {"U8 weights as I8",
       {Family::nvfp4, "model.", false, "weight_scale", "I8", "F8_E4M3"},
       as_it_is,
       family(Family::nvfp4)},
      {"FP8 with BF16 scales",
       {Family::fp8, "model.", false, "weight_scale_inv", "F8_E4M3", "BF16"},
       as_it_is,
       [](const Model& m) { return m.scale_type == ScaleType::bf16; }},
      {"FP8 with weight_scale",
       {Family::fp8, "model.", false, "weight_scale", "F8_E4M3", "F32"},
       as_it_is,
       family(Family::fp8)},
      {"Quark's MXFP4",
       {Family::mxfp4, "model.", false, "weight_scale", "U8", "U8"},
       as_it_is,
       family(Family::mxfp4)},
      {"MXFP4 weights as F4", kMxfp4,
       [](Variant& v) {
         for (auto& t : v.tensors)
           if (t.dtype == "I8") t.dtype = "F4", t.shape[1] *= 2;
       },
       family(Family::mxfp4)},
      {"NVFP4 weights as F4", kNvfp4,
       [](Variant& v) {
         for (auto& t : v.tensors)
           if (t.dtype == "U8") t.dtype = "F4", t.shape[1] *= 2;
       },
       family(Family::nvfp4)},
      {"tensor scales in two dimensions", kNvfp4,
       [](Variant& v) {
         for (auto& t : v.tensors)
           if (t.name.ends_with("_2")) t.shape = {1, 1};
       },
       plain},
      {"block_sparse_moe", kFp8, [](Variant& v) { v.rename(".mlp.", ".block_sparse_moe."); },
       family(Family::fp8)},
      {"another prefix", kFp8, [](Variant& v) { v.rename("model.", "a.b.decoder."); }, family(Family::fp8)},
      {"experts of a drafter with a prefix of its own", kMxfp4,
       [](Variant& v) {
         v.add("draft_model.layers.0.ffn.experts.0.w1.weight", "I8", {1, 1});
       },
       kind("drafters", 1)},
      {"FP8 with E8M0 scales",
       {Family::fp8, "model.", false, "weight_scale_inv", "F8_E4M3", "F8_E8M0"},
       as_it_is,
       [](const Model& m) { return m.scale_type == ScaleType::e8m0; }},
      {"FP8 with E8M0 scales as U8",
       {Family::fp8, "", true, "scale", "F8_E4M3", "U8"},
       as_it_is,
       [](const Model& m) { return m.scale_type == ScaleType::e8m0; }},
      {"tensor scales of shape [1]", kNvfp4,
       [](Variant& v) {
         for (auto& t : v.tensors)
           if (t.name.ends_with("_2")) t.shape = {1};
       },
       plain},
      {"no input scales", kNvfp4, [](Variant& v) { v.remove("input_scale"); },
       [](const Model& m) { return m.left_alone.count("input scales of experts") == 0; }},
      {"input scales", kNvfp4, as_it_is, kind("input scales of experts", 12)},
      {"another name for the number of experts", kMxfp4,
       [](Variant& v) {
         v.config.erase("n_routed_experts");
         v.config["num_experts"] = 2;
       },
       plain},
      {"and another", kMxfp4,
       [](Variant& v) {
         v.config.erase("n_routed_experts");
         v.config["num_local_experts"] = 2;
       },
       plain},
      {"a nested config", kFp8,
       [](Variant& v) {
         Json inner = v.config;
         v.config = {{"text_config", inner}, {"hidden_size", 7}};
       },
       family(Family::fp8)},
      {"only the quantization at the top", kFp8,
       [](Variant& v) {
         Json q = v.config["quantization_config"];
         v.config.erase("quantization_config");
         v.config = {{"text_config", v.config}, {"quantization_config", q}};
       },
       family(Family::fp8)},
      {"MXFP4 beside an FP8 block shape", kMxfp4,
       [](Variant& v) {
         v.config["quantization_config"]["weight_block_size"] = {128, 128};
       },
       [](const Model& m) { return m.block_rows == 1 && m.block_cols == 32; }},
      {"drafters by number", kMxfp4,
       [](Variant& v) {
         v.config["num_hidden_layers"] = 2;
         v.remove("layers.2.ffn.gate");
       },
       [](const Model& m) {
         return m.layers.size() == 1 && m.layers[0].index == 1 && m.left_alone.at("MTP").tensors == 12 &&
                m.doubt.find("layers from 2 on (1 in all)") != std::string::npos;
       }},
      {"drafters by number, as the config says", kMxfp4,
       [](Variant& v) {
         v.config["num_hidden_layers"] = 2;
         v.config["num_nextn_predict_layers"] = 1;
         v.remove("layers.2.ffn.gate");
       },
       [](const Model& m) { return m.layers.size() == 1 && m.doubt.empty(); }},
      {"drafters by name", kMxfp4,
       [](Variant& v) {
         v.add("mtp.0.ffn.experts.0.w1.weight", "I8", {1, 1});
         v.add("model.mtp.layers.0.ffn.experts.7.w1.weight", "F3", {});
         v.add("mtp.0.ffn.experts.gate_up_proj", "BF16", {1, 1, 1});
       },
       kind("MTP", 3)},
      {"fused drafters by number", kFp8,
       [](Variant& v) {
         v.add("model.layers.3.mlp.experts.gate_up_proj", "BF16", {2, 256, 192});
       },
       kind("MTP", 1)},
      {"experts of something else", kMxfp4,
       [](Variant& v) { v.add("vision.blocks.0.experts.0.fc.weight", "BF16", {1}); }, kind("vision", 1)},
      {"other dtypes elsewhere", kMxfp4,
       [](Variant& v) {
         v.add("layers.1.attn.wq.weight", "F4", {2, 2});
         v.add("layers.1.attn.wk.weight", "F3", {3});
       },
       kind("attention", 2)},
      {"a dense layer that first_k_dense_replace names", kFp8,
       [](Variant& v) {
         v.config["first_k_dense_replace"] = 1;
         v.config["moe_layer_freq"] = 1;
       },
       plain},
      {"sparse layers by another rule than first_k_dense_replace", kFp8,
       [](Variant& v) {
         v.config["first_k_dense_replace"] = 0;
         v.config["moe_layer_freq"] = {0, 1, 1};
       },
       plain},
  };
  // either naming of stems with either suffix, below each prefix, in each family
  for (const char* prefix :
       {"", "model.", "language_model.model.", "language_model.", "model.language_model."})
    for (const bool short_names : {true, false}) {
      for (const char* scale : {"scale", "weight_scale_inv"}) {
        rows.push_back({"MXFP4 names",
                        {Family::mxfp4, prefix, short_names, scale, "I8", "F8_E8M0"},
                        as_it_is,
                        family(Family::mxfp4)});
        rows.push_back({"FP8 names",
                        {Family::fp8, prefix, short_names, scale, "F8_E4M3", "F32"},
                        as_it_is,
                        family(Family::fp8)});
      }
      rows.push_back({"NVFP4 names",
                      {Family::nvfp4, prefix, short_names, "weight_scale", "U8", "F8_E4M3"},
                      as_it_is,
                      family(Family::nvfp4)});
    }
  return rows;
}

}  // namespace

TEST_CASE("what the format allows is found") {
  const Scratch scratch;
  for (const Accepted& row : accepted_variants()) {
    CAPTURE(row.what);
    CAPTURE(row.style.prefix);
    CAPTURE(row.style.short_names);
    Variant changed = variant(row.style);
    row.change(changed);
    const Checkpoint checkpoint = open_variant(scratch, changed);
    std::optional<Model> model;
    CHECK_NOTHROW(model = find_experts(checkpoint));
    REQUIRE(model);
    CHECK(row.holds(*model));
    CHECK(model->layers.front().index == 1);
    CHECK(model->layers.front().key == 0);
  }
}

TEST_CASE("what is left alone is counted by kind") {
  const Scratch scratch;
  Variant v = variant(kMxfp4);
  v.tensors.clear();
  const std::pair<const char*, const char*> kinds[] = {
      {"layers.1.ffn.shared_experts.w1.weight", "shared experts"},
      {"model.layers.1.mlp.shared_expert_gate.weight", "shared experts"},
      {"layers.1.ffn.gate.bias", "router"},
      {"layers.1.compressor.gate.weight", "other"},
      {"layers.1.ffn.gate.tid2eid", "router"},
      {"layers.0.attn.q_norm.weight", "attention"},
      {"model.layers.0.self_attn.o_proj.weight", "attention"},
      {"layers.0.ffn_norm.weight", "norms"},
      {"model.layers.0.input_layernorm.weight", "norms"},
      {"norm.weight", "norms"},
      {"embed.weight", "embeddings"},
      {"model.embed_tokens.weight", "embeddings"},
      {"head.weight", "head"},
      {"lm_head.weight", "head"},
      {"hc_head_fn", "hyper-connections"},
      {"layers.0.hc_attn_base", "hyper-connections"},
      {"model.layers.0.mlp.gate_proj.weight", "dense MLP"},
      {"vision_tower.blocks.0.attn.norm.weight", "vision"},
      {"mtp.0.attn.wq_a.weight", "MTP"},
      {"model.layers.3.input_layernorm.weight", "MTP"},
      {"something", "other"},
      {"", "other"},
      {".", "other"},
      {"layers", "other"},
      {"layers.", "other"},
      {"model", "other"},
      {"language_model.model", "other"},
      {"layers.18446744073709551616.x", "other"}};
  std::map<std::string, std::uint64_t> expected;
  for (const auto& [tensor, kind] : kinds) {
    v.add(tensor, "U8", {3});
    ++expected[kind];
  }
  const Variant experts = variant(kMxfp4);
  for (const TensorSpec& tensor : experts.tensors)
    if (tensor.name.find(".experts.") != std::string::npos) v.tensors.push_back(tensor);
  const Checkpoint checkpoint = open_variant(scratch, v);
  const Model model = find_experts(checkpoint);
  CHECK(model.left_alone.size() == expected.size());
  for (const auto& row : expected) {
    const auto& kind = row.first;
    CAPTURE(kind);
    REQUIRE(model.left_alone.count(kind) == 1);
    CHECK(model.left_alone.at(kind).tensors == row.second);
    CHECK(model.left_alone.at(kind).bytes == 3 * row.second);
  }
}
