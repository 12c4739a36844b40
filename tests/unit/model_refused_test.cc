// Routed experts: one row for each way in which they can be wrong.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <functional>
#include <optional>

#include "base/error.h"
#include "expert_checkpoints.h"

using namespace planesmith;

namespace {

struct Refused {
  const char* what;
  Style style;
  std::function<void(Variant&)> change;
  const char* tensor;
  std::vector<const char*> reasons;  // parts of the message
};

// An expert's tensor of layer 1 in the three styles.
const std::string kW1 = "layers.1.ffn.experts.0.w1.", kW2 = "layers.2.ffn.experts.1.w2.",
                  kGate = "model.layers.1.mlp.experts.0.gate_proj.",
                  kDown = "model.layers.2.mlp.experts.1.down_proj.";

std::vector<Refused> refused_variants() {
  const auto drop = [](std::string part) { return [=](Variant& v) { v.remove(part); }; };
  const auto dtype = [](std::string name, std::string text) {
    return [=](Variant& v) { v[name].dtype = text; };
  };
  const auto shape = [](std::string name, std::vector<std::uint64_t> s) {
    return [=](Variant& v) { v[name].shape = s; };
  };
  const auto config = [](std::string key, Json value) { return [=](Variant& v) { v.config[key] = value; }; };
  const auto add = [](std::string name, std::string type, std::vector<std::uint64_t> s) {
    return [=](Variant& v) { v.add(name, type, s); };
  };
  return {
      // completeness
      {"no experts", kMxfp4, drop("experts"), "", {"no routed experts"}},
      {"a weight is missing",
       kMxfp4,
       drop(kW2 + "weight"),
       "",
       {"2 sparse layers x 2 experts x 3 = 12 expert weights", "11 weights found",
        "missing: 'layers.2.ffn.experts.1.w2.weight'"}},
      {"a scale is missing",
       kMxfp4,
       drop(kW1 + "scale"),
       "",
       {"12 weights found", "missing: 'layers.1.ffn.experts.0.w1.scale'"}},
      {"an inverse scale is missing",
       kFp8,
       drop(kGate + "weight_scale_inv"),
       "",
       {"missing: 'model.layers.1.mlp.experts.0.gate_proj.weight_scale_inv'"}},
      {"a group scale is missing",
       kNvfp4,
       drop(kGate + "weight_scale"),
       "",
       {"missing: 'model.layers.1.mlp.experts.0.gate_proj.weight_scale'"}},
      {"a tensor scale is missing",
       kNvfp4,
       drop(kDown + "weight_scale_2"),
       "",
       {"missing: 'model.layers.2.mlp.experts.1.down_proj.weight_scale_2'"}},
      {"an expert is missing",
       kNvfp4,
       drop("layers.1.mlp.experts.1."),
       "",
       {"9 weights found",
        "'model.layers.1.mlp.experts.1.gate_proj.weight', "
        "'model.layers.1.mlp.experts.1.gate_proj.weight_scale', "
        "'model.layers.1.mlp.experts.1.gate_proj.weight_scale_2' and 6 more"}},
      {"all experts of a layer with a router are missing",
       kMxfp4,
       drop("layers.2.ffn.experts"),
       "",
       {"2 sparse layers", "6 weights found", "'layers.2.ffn.experts.0.w1.weight'", "and 9 more"}},
      {"a sparse layer is missing altogether",
       kFp8,
       [](Variant& v) {
         v.remove("layers.2");
         v.config["first_k_dense_replace"] = 1;
       },
       "",
       {"2 sparse layers", "'model.layers.2.mlp.experts.0.gate_proj.weight'"}},
      {"all scales are missing", kMxfp4, drop(".scale"), "", {"12 weights found", "and 9 more"}},
      {"all weights are missing",
       kFp8,
       [](Variant& v) { std::erase_if(v.tensors, [](auto& t) { return t.name.ends_with("proj.weight"); }); },
       "",
       {"0 weights found"}},
      {"more experts in config.json",
       kMxfp4,
       config("n_routed_experts", 3),
       "",
       {"x 3 experts", "'layers.1.ffn.experts.2.w1.weight'"}},
      {"an absurd number of experts",
       kMxfp4,
       config("n_routed_experts", 65536),
       "",
       {"12 weights found", "and "}},
      // extras
      {"fewer experts in config.json",
       kMxfp4,
       config("n_routed_experts", 1),
       "layers.1.ffn.experts.1.w1.weight",
       {"is of expert 1, but config.json has 1"}},
      {"a bias",
       kMxfp4,
       add(kW1 + "bias", "F32", {128}),
       "layers.1.ffn.experts.0.w1.bias",
       {"of no known family"}},
      {"an unknown projection",
       kMxfp4,
       add("layers.1.ffn.experts.0.w4.weight", "I8", {128, 96}),
       "layers.1.ffn.experts.0.w4.weight",
       {"of no known family"}},
      {"a projection of the other naming",
       kMxfp4,
       add("layers.1.ffn.experts.0.up_proj.weight", "I8", {128, 96}),
       "layers.1.ffn.experts.0.up_proj.weight",
       {"means the same as tensor 'layers.1.ffn.experts.0.w3.weight'"}},
      {"an expert's number with a leading zero",
       kMxfp4,
       add("layers.1.ffn.experts.00.w1.weight", "I8", {128, 96}),
       "layers.1.ffn.experts.00.w1.weight",
       {"of no known family"}},
      {"experts below the prefix of something else only",
       kMxfp4,
       [](Variant& v) { v.rename("layers.", "vision_tower.layers."); },
       "",
       {"no routed experts"}},
      {"two block scales",
       kMxfp4,
       add(kW1 + "weight_scale_inv", "F8_E8M0", {128, 6}),
       "layers.1.ffn.experts.0.w1.weight_scale_inv",
       {"means the same as tensor 'layers.1.ffn.experts.0.w1.scale'"}},
      {"the same expert below two prefixes",
       kMxfp4,
       add("model." + kW1 + "weight", "I8", {128, 96}),
       "model.layers.1.ffn.experts.0.w1.weight",
       {"below 'model.layers.'", "all experts must have one prefix"}},
      {"two scales of different suffixes",
       kMxfp4,
       [](Variant& v) {
         v.add("layers.2.ffn.experts.1.w1.weight_scale", "F8_E4M3", {128, 12});
       },
       "layers.2.ffn.experts.1.w1.weight_scale",
       {"means the same as tensor 'layers.2.ffn.experts.1.w1.scale'"}},
      {"a scale of the whole tensor with FP8",
       kFp8,
       add(kGate + "weight_scale_2", "F32", {1}),
       "model.layers.1.mlp.experts.0.gate_proj.weight_scale_2",
       {"has no meaning for FP8 block"}},
      {"FP8 with a scale for each row",
       kFp8,
       [](Variant& v) {
         for (auto& t : v.tensors)
           if (t.name.ends_with("_inv"))
             t.shape = {t.name.find("down") == std::string::npos ? 128u : 192u, 1};
       },
       "model.layers.1.mlp.experts.0.gate_proj.weight_scale_inv",
       {"one scale for each row (per-channel FP8)"}},
      {"FP8 with a scale for each row and no block shape",
       kFp8,
       [](Variant& v) {
         v.config.erase("quantization_config");
         for (auto& t : v.tensors)
           if (t.name.ends_with("_inv")) t.shape = {t.name.find("down") == std::string::npos ? 128u : 192u};
       },
       "model.layers.1.mlp.experts.0.gate_proj.weight_scale_inv",
       {"one scale for each row (per-channel FP8)"}},
      {"FP8 with one scale",
       kFp8,
       [](Variant& v) {
         for (auto& t : v.tensors)
           if (t.name.ends_with("_inv")) t.shape = {1};
       },
       "model.layers.1.mlp.experts.0.gate_proj.weight_scale_inv",
       {"one scale for the whole tensor (per-tensor FP8)"}},
      {"FP8 with scales of four dimensions",
       kFp8,
       [](Variant& v) {
         for (auto& t : v.tensors)
           if (t.name.ends_with("_inv")) t.shape = {t.shape[0], 1, t.shape[1], 1};
       },
       "model.layers.1.mlp.experts.0.gate_proj.weight_scale_inv",
       {"scales of 4 dimensions"}},
      {"experts that are not quantized",
       kFp8,
       [](Variant& v) {
         v.remove("weight_scale_inv");
         for (auto& t : v.tensors)
           if (t.dtype == "F8_E4M3") t.dtype = "BF16";
       },
       "",
       {"is not quantized yet: its experts are BF16", "repack-experts quantize"}},
      {"a layer of which nothing is there",
       kMxfp4,
       config("num_hidden_layers", 9),
       "",
       {"\"num_hidden_layers\": 9", "no tensor of 6 of these layers, the first of them layer 3"}},
      // fused experts
      {"fused experts",
       kMxfp4,
       add("layers.2.ffn.experts.gate_up_proj", "BF16", {2, 256, 192}),
       "layers.2.ffn.experts.gate_up_proj",
       {"shape [2, 256, 192]", "not supported yet", "1 such"}},
      {"only fused experts",
       kFp8,
       [](Variant& v) {
         v.remove(".experts.");
         for (int l : {1, 2})
           v.add(fmt::format("model.layers.{}.mlp.experts.down_proj", l), "BF16", {2, 192, 128});
       },
       "",
       {"is not quantized yet", "all of a layer in one tensor", "repack-experts quantize"}},
      {"fused experts with .weight",
       kFp8,
       add("model.layers.1.mlp.experts.gate_up_proj.weight", "BF16", {2, 256, 192}),
       "model.layers.1.mlp.experts.gate_up_proj.weight",
       {"not supported yet"}},
      {"fused experts below an unknown prefix",
       kFp8,
       add("model.language_model.layers.1.mlp.experts.gate_up_proj", "BF16", {2, 256, 192}),
       "model.language_model.layers.1.mlp.experts.gate_up_proj",
       {"not supported yet"}},
      {"fused experts in two dimensions",
       kFp8,
       add("model.layers.1.mlp.experts.gate_up_proj", "BF16", {512, 192}),
       "model.layers.1.mlp.experts.gate_up_proj",
       {"of no known family"}},
      // families
      {"a layer in another family",
       kMxfp4,
       [](Variant& v) {
         v.remove("layers.2.ffn.experts");
         Style other = kFp8;
         other.prefix = "";
         for (auto& t : variant(other).tensors)
           if (t.name.find("layers.2.mlp.experts") != std::string::npos) v.tensors.push_back(t);
       },
       "layers.2.mlp.experts.0.gate_proj.weight",
       {"is FP8 block, but 'layers.1.ffn.experts.0.w1.weight' is MXFP4"}},
      {"an expert that is not quantized",
       kFp8,
       dtype(kDown + "weight", "BF16"),
       "model.layers.2.mlp.experts.1.down_proj.weight",
       {"has dtype BF16"}},
      {"a weight with a dtype of the future",
       kMxfp4,
       dtype(kW1 + "weight", "F3_E1M1"),
       "layers.1.ffn.experts.0.w1.weight",
       {"has dtype F3_E1M1"}},
      {"an MXFP4 scale in F32",
       kMxfp4,
       dtype(kW1 + "scale", "F32"),
       "layers.1.ffn.experts.0.w1.scale",
       {"has dtype F32; F8_E8M0 or U8 was expected"}},
      {"FP8 scales of two dtypes",
       kFp8,
       dtype(kDown + "weight_scale_inv", "F8_E8M0"),
       "model.layers.2.mlp.experts.1.down_proj.weight_scale_inv",
       {"has dtype F8_E8M0; F32 was expected"}},
      {"an FP8 scale in BF16",
       kFp8,
       dtype(kDown + "weight_scale_inv", "BF16"),
       "model.layers.2.mlp.experts.1.down_proj.weight_scale_inv",
       {"has dtype BF16"}},
      {"a group scale in F32",
       kNvfp4,
       dtype(kGate + "weight_scale", "F32"),
       "model.layers.1.mlp.experts.0.gate_proj.weight_scale",
       {"F8_E4M3 was expected"}},
      {"a tensor scale in BF16",
       kNvfp4,
       dtype(kGate + "weight_scale_2", "BF16"),
       "model.layers.1.mlp.experts.0.gate_proj.weight_scale_2",
       {"is BF16 of shape []"}},
      {"a tensor scale of two values",
       kNvfp4,
       shape(kGate + "weight_scale_2", {2}),
       "model.layers.1.mlp.experts.0.gate_proj.weight_scale_2",
       {"shape [2]"}},
      // shapes
      {"a weight with a row more",
       kMxfp4,
       shape(kW1 + "weight", {129, 96}),
       "layers.1.ffn.experts.0.w1.weight",
       {"has shape [129, 96]; [128, 96] was expected"}},
      {"a weight that is transposed",
       kMxfp4,
       shape(kW2 + "weight", {64, 192}),
       "layers.2.ffn.experts.1.w2.weight",
       {"has shape [64, 192]; [192, 64] was expected"}},
      {"a weight in three dimensions",
       kFp8,
       shape(kGate + "weight", {1, 128, 192}),
       "model.layers.1.mlp.experts.0.gate_proj.weight",
       {"has shape [1, 128, 192]"}},
      {"a packed weight with all columns",
       kNvfp4,
       shape(kGate + "weight", {128, 192}),
       "model.layers.1.mlp.experts.0.gate_proj.weight",
       {"[128, 96] was expected"}},
      {"a scale with a column less",
       kMxfp4,
       shape(kW1 + "scale", {128, 5}),
       "layers.1.ffn.experts.0.w1.scale",
       {"has shape [128, 5]; [128, 6] was expected"}},
      {"a group scale for blocks of 32",
       kNvfp4,
       shape(kGate + "weight_scale", {128, 6}),
       "model.layers.1.mlp.experts.0.gate_proj.weight_scale",
       {"[128, 12] was expected"}},
      {"a block scale for other blocks",
       kFp8,
       [](Variant& v) {
         v.config["quantization_config"]["weight_block_size"] = {64, 128};
       },
       "model.layers.1.mlp.experts.0.gate_proj.weight_scale_inv",
       {"[2, 2] was expected"}},
      {"another hidden size",
       kMxfp4,
       config("hidden_size", 256),
       "layers.1.ffn.experts.0.w1.weight",
       {"[128, 128] was expected", "hidden_size 256"}},
      // config.json
      {"no hidden_size",
       kMxfp4,
       [](Variant& v) { v.config.erase("hidden_size"); },
       "",
       {R"(lacks "hidden_size")"}},
      {"no number of experts",
       kMxfp4,
       [](Variant& v) { v.config.erase("n_routed_experts"); },
       "",
       {R"(lacks "n_routed_experts" or "num_experts" or "num_local_experts")"}},
      {"a geometry as text", kMxfp4, config("hidden_size", "192"), "", {"is string; a whole number"}},
      {"a geometry with a point", kMxfp4, config("hidden_size", 192.0), "", {"is 192.0; a whole number"}},
      {"no layers", kMxfp4, config("num_hidden_layers", 0), "", {"is 0; a whole number from 1"}},
      {"a negative geometry", kMxfp4, config("num_hidden_layers", -3), "", {"is -3"}},
      {"a geometry above all models",
       kMxfp4,
       config("num_hidden_layers", 1ull << 40),
       "",
       {"to 65536 was expected"}},
      {"no block shape",
       kFp8,
       [](Variant& v) { v.config.erase("quantization_config"); },
       "",
       {"weight_block_size", "add it as the source has it, usually [128, 128]"}},
      {"a block shape of one number",
       kFp8,
       [](Variant& v) { v.config["quantization_config"]["weight_block_size"] = {128}; },
       "",
       {"not a list of two numbers"}},
      {"a block of no rows",
       kFp8,
       [](Variant& v) {
         v.config["quantization_config"]["weight_block_size"] = {0, 128};
       },
       "",
       {"is 0; a whole number"}},
  };
}

}  // namespace

TEST_CASE("each way in which the experts can be wrong is refused and named") {
  const Scratch scratch;
  int refused = 0;
  for (const Refused& row : refused_variants()) {
    CAPTURE(row.what);
    Variant changed = variant(row.style);
    CHECK_NOTHROW(find_experts(open_variant(scratch, changed)));
    row.change(changed);
    const Checkpoint checkpoint = open_variant(scratch, changed);
    std::optional<Error> error;
    try {
      find_experts(checkpoint);
    } catch (const Error& e) {
      error = e;
    }
    REQUIRE(error);
    CAPTURE(error->what());
    CHECK(error->code() == ErrorCode::failed);
    CHECK(error->tensor() == row.tensor);
    CHECK(error->offset().has_value() == !error->tensor().empty());
    for (const char* reason : row.reasons) {
      CAPTURE(reason);
      CHECK(error->reason().find(reason) != std::string::npos);
    }
    ++refused;
  }
  MESSAGE(refused << " wrong models refused");
}
