// What audit finds about experts, recipes and drafters: each fault alone, in an otherwise sound checkpoint.
#include <doctest/doctest.h>

#include <limits>

#include "audit_bench.h"

using namespace planesmith;

namespace {

using Codes = std::set<std::string>;

constexpr float kInfinity = std::numeric_limits<float>::infinity();

}  // namespace

TEST_CASE("a sound checkpoint of each family has no finding") {
  CHECK(AuditBench(kMxfp4).codes() == Codes{});
  CHECK(AuditBench(kFp8).codes() == Codes{});
  CHECK(AuditBench(kNvfp4).codes() == Codes{});
}

// --- layout and completeness ---

TEST_CASE("experts.complete: the arithmetic is a note") {
  AuditBench bench(kMxfp4);
  bench.with_notes = true;
  CHECK(bench.codes().contains("experts.complete"));
}

TEST_CASE("experts.not-quantized: floats") {
  AuditBench bench(kMxfp4);
  bench.with_notes = true;
  std::erase_if(bench.checkpoint.tensors, [](const TensorSpec& t) { return t.name.ends_with(".scale"); });
  for (TensorSpec& tensor : bench.checkpoint.tensors)
    if (tensor.dtype == "I8") tensor.dtype = "BF16";
  CHECK(bench.codes().contains("experts.not-quantized"));
}

TEST_CASE("experts.layout: compressed-tensors' words are translated, not built from") {
  AuditBench bench(kNvfp4);
  bench.checkpoint.config["quantization_config"] = {{"quant_method", "compressed-tensors"},
                                                    {"format", "nvfp4-pack-quantized"}};
  for (TensorSpec& tensor : bench.checkpoint.tensors) {
    if (tensor.name.find(".experts.") == std::string::npos) continue;
    if (tensor.name.ends_with(".weight")) tensor.name += "_packed";
    if (tensor.name.ends_with(".weight_scale_2"))
      tensor.name.replace(tensor.name.size() - 7, 7, "global_scale");
  }
  CHECK(bench.codes().contains("experts.layout"));
}

TEST_CASE("experts.fused: all experts of a layer in one tensor") {
  AuditBench bench(kMxfp4);
  bench.checkpoint.add("layers.1.ffn.experts.gate_up_proj", "BF16", {2, 256, 192});
  CHECK(bench.codes().contains("experts.fused"));
}

TEST_CASE("experts.scale-missing: a weight without its scale") {
  AuditBench bench(kMxfp4);
  bench.checkpoint.remove("layers.1.ffn.experts.0.w1.scale");
  CHECK(bench.codes().contains("experts.scale-missing"));
}

TEST_CASE("experts.mixed-dtypes: one weight of another type") {
  AuditBench bench(kMxfp4);
  TensorSpec& weight = bench.checkpoint[bench.expert(0, "w1", "weight")];
  weight.dtype = "F8_E4M3";
  CHECK(bench.codes().contains("experts.mixed-dtypes"));
}

TEST_CASE("experts.incomplete: an expert of one layer is not there") {
  AuditBench bench(kMxfp4);
  bench.checkpoint.remove("layers.1.ffn.experts.1.");
  const Codes found = bench.codes();
  CHECK(found.contains("experts.incomplete"));
  CHECK(found.contains("experts.refused"));
}

TEST_CASE("experts.refused: what the builders refuse, in their words") {
  AuditBench bench(kMxfp4);
  bench.checkpoint.remove("layers.1.ffn.experts.");
  CHECK(bench.codes().contains("experts.refused"));
}

// --- values ---

TEST_CASE("experts.scale-nonfinite: NaN or infinity in a scale of each type") {
  AuditBench mxfp4(kMxfp4);
  mxfp4.of(mxfp4.expert(0, "w1", "scale"))[5] = '\xff';
  CHECK(mxfp4.codes() == Codes{"experts.scale-nonfinite"});
  AuditBench fp8(kFp8);
  AuditBench::put_float(fp8.of(fp8.expert(1, "up_proj", "weight_scale_inv")), 0, kInfinity);
  CHECK(fp8.codes() == Codes{"experts.scale-nonfinite"});
  AuditBench nvfp4(kNvfp4);
  nvfp4.of(nvfp4.expert(0, "down_proj", "weight_scale"))[0] = '\x7f';
  CHECK(nvfp4.codes() == Codes{"experts.scale-nonfinite"});
}

TEST_CASE("experts.scale-zero: a block whose weights are all zero") {
  AuditBench bench(kNvfp4);
  bench.of(bench.expert(0, "gate_proj", "weight_scale"))[0] = '\0';
  CHECK(bench.codes() == Codes{"experts.scale-zero"});
}

TEST_CASE("experts.scale-wholly-zero: scales that were never written, whatever zero means in their type") {
  const auto zeroed = [](const Style& family, const char* projection, const char* scale) {
    AuditBench bench(family);
    std::string& bytes = bench.of(bench.expert(0, projection, scale));
    std::fill(bytes.begin(), bytes.end(), '\0');
    return bench.codes();
  };
  CHECK(zeroed(kMxfp4, "w1", "scale") == Codes{"experts.scale-wholly-zero"});
  CHECK(zeroed(kNvfp4, "up_proj", "weight_scale") ==
        Codes{"experts.scale-wholly-zero", "experts.scale-zero"});
  CHECK(zeroed(kFp8, "down_proj", "weight_scale_inv") ==
        Codes{"experts.scale-wholly-zero", "experts.scale-zero"});
}

TEST_CASE("experts.scale-subnormal is a note") {
  AuditBench bench(kFp8);
  bench.with_notes = true;
  AuditBench::put_float(bench.of(bench.expert(0, "gate_proj", "weight_scale_inv")), 0, 1e-40f);
  CHECK(bench.codes().contains("experts.scale-subnormal"));
}

TEST_CASE("experts.all-zero: an exporter divided 0 by 0") {
  AuditBench bench(kNvfp4);
  for (const char* projection : {"gate_proj", "up_proj"})
    AuditBench::put_float(bench.of(bench.expert(0, projection, "weight_scale_2")), 0, 0);
  bench.of(bench.expert(0, "gate_proj", "weight_scale"))[0] = '\x7f';
  CHECK(bench.codes().contains("experts.all-zero"));
}

TEST_CASE("experts.scale-inverted: a global scale without its reciprocal") {
  AuditBench bench(kNvfp4);
  for (const char* projection : {"gate_proj", "up_proj"})
    AuditBench::put_float(bench.of(bench.expert(0, projection, "weight_scale_2")), 0, 1000);
  CHECK(bench.codes() == Codes{"experts.scale-inverted"});
}

TEST_CASE("experts.gate-up-scale: gate and up of one expert have scales of their own") {
  AuditBench bench(kNvfp4);
  AuditBench::put_float(bench.of(bench.expert(0, "gate_proj", "weight_scale_2")), 0, .02f);
  CHECK(bench.codes() == Codes{"experts.gate-up-scale"});
}

TEST_CASE("experts.one-signed-zeros: no zero of the first expert's gate is negative") {
  AuditBench bench(kMxfp4);
  for (char& byte : bench.of(bench.expert(0, "w1", "weight"))) {
    if ((byte & 0x0f) == 0x08) byte = static_cast<char>(byte & 0xf0);
    if ((byte & 0xf0) == 0x80) byte = static_cast<char>(byte & 0x0f);
  }
  CHECK(bench.codes() == Codes{"experts.one-signed-zeros"});
}

TEST_CASE("experts.constant: a weight of one code") {
  AuditBench bench(kMxfp4);
  std::string& weight = bench.of(bench.expert(1, "w3", "weight"));
  weight.assign(weight.size(), '\x22');
  CHECK(bench.codes() == Codes{"experts.constant"});
}

TEST_CASE("experts.constant: the middle of an odd number of elements is not the middle of its bytes") {
  struct Case {
    const char* dtype;
    std::string one;
  };
  for (const Case& each : {Case{"BF16", "\x80\x3f"}, Case{"F32", std::string("\0\0\x80\x3f", 4)}}) {
    CAPTURE(each.dtype);
    AuditBench bench(kMxfp4);
    TensorSpec& weight = bench.checkpoint[bench.expert(1, "w3", "weight")];
    weight.dtype = each.dtype;
    weight.shape = {101, 101};
    std::string& bytes = bench.contents[weight.name];
    while (bytes.size() < weight.bytes()) bytes += each.one;
    CHECK(bench.codes().contains("experts.constant"));
    bytes[bytes.size() / 2] ^= 1;
    CHECK(!bench.codes().contains("experts.constant"));
  }
}

TEST_CASE("experts.identical: an expert that was written twice") {
  AuditBench bench(kMxfp4);
  bench.of(bench.expert(1, "w3", "weight")) = bench.of(bench.expert(0, "w3", "weight"));
  CHECK(bench.codes() == Codes{"experts.identical"});
}

TEST_CASE("shards.zero-tail: room that was never filled") {
  AuditBench bench(kMxfp4);
  bench.checkpoint.add("tail.weight", "BF16", {128, 128});
  std::string& tail = bench.of("tail.weight");
  tail.assign(tail.size(), '\0');
  CHECK(bench.codes() == Codes{"shards.zero-tail"});
}

// --- serving ---

TEST_CASE("serving.world: a rank's slice that the format cannot hold") {
  AuditBench bench(kMxfp4);
  bench.request.world = 4;
  CHECK(bench.codes() == Codes{"serving.world"});
}

TEST_CASE("serving.architecture: one that planes were never compared for") {
  AuditBench bench(kMxfp4);
  bench.checkpoint.config["architectures"] = {"OtherForCausalLM"};
  CHECK(bench.codes() == Codes{"serving.architecture"});
}

TEST_CASE("profile.geometry: another number of experts than the profile's") {
  AuditBench bench(kMxfp4);
  bench.request.profile = Profile{.name = "other", .geometry = format::Geometry{3, 4, 192, 128}};
  CHECK(bench.codes() == Codes{"profile.geometry"});
}

TEST_CASE("profile.unknown-geometry: config.json does not say what would be compared") {
  AuditBench bench(kMxfp4);
  bench.request.profile = Profile{.name = "other", .geometry = format::Geometry{3, 4, 192, 128}};
  bench.checkpoint.config.erase("hidden_size");
  CHECK(bench.codes().contains("profile.unknown-geometry"));
}

// --- recipes ---

TEST_CASE("recipe.ignore-unmatched: an entry that protects nothing") {
  AuditBench bench(kMxfp4);
  bench.checkpoint.config["quantization_config"]["ignore"] = {"re:^mtp.*", "no_such_module"};
  CHECK(bench.codes() == Codes{"recipe.ignore-unmatched"});
}

TEST_CASE("recipe.bad-pattern: an invalid regular expression") {
  AuditBench bench(kMxfp4);
  bench.checkpoint.config["quantization_config"]["ignore"] = {"re:^mtp.*", "re:(("};
  CHECK(bench.codes().contains("recipe.bad-pattern"));
}

TEST_CASE("recipe.sensitive-quantized: a router of 8 bits") {
  AuditBench bench(kMxfp4);
  bench.checkpoint["layers.1.ffn.gate.weight"].dtype = "F8_E4M3";
  CHECK(bench.codes() == Codes{"recipe.sensitive-quantized"});
}

TEST_CASE("recipe.group-unmatched: a target that matches nothing") {
  AuditBench bench(kMxfp4);
  Json& recipe = bench.checkpoint.config["quantization_config"];
  recipe["config_groups"] = {{"a", {{"targets", {"Linear"}}}}, {"b", {{"targets", {"re:^nothing$"}}}}};
  recipe["ignore"] = {"re:^mtp.*"};
  CHECK(bench.codes() == Codes{"recipe.group-unmatched"});
}

TEST_CASE("recipe.group-overlap: modules of two groups") {
  AuditBench bench(kMxfp4);
  Json& recipe = bench.checkpoint.config["quantization_config"];
  recipe["config_groups"] = {{"a", {{"targets", {"Linear"}}}}, {"b", {{"targets", {"re:.*experts.*"}}}}};
  recipe["ignore"] = {"re:^mtp.*"};
  CHECK(bench.codes() == Codes{"recipe.group-overlap"});
}

TEST_CASE("recipe.uncovered: modules of no group that are not ignored") {
  AuditBench bench(kMxfp4);
  Json& recipe = bench.checkpoint.config["quantization_config"];
  recipe["config_groups"] = {{"a", {{"targets", {"re:.*experts.*"}}}}};
  recipe["ignore"] = {"re:^mtp.*"};
  CHECK(bench.codes() == Codes{"recipe.uncovered"});
}

TEST_CASE("recipe.activations: settings that planes do not honour") {
  AuditBench bench(kNvfp4);
  bench.files["hf_quant_config.json"] = R"({"quantization": {"quant_algo": "W4A8_NVFP4_FP8"}})";
  CHECK(bench.codes() == Codes{"recipe.activations"});
}

// --- drafters ---

TEST_CASE("mtp.count: more drafters than there are, and fewer") {
  AuditBench bench(kMxfp4);
  bench.checkpoint.config["num_nextn_predict_layers"] = 4;
  CHECK(bench.codes() == Codes{"mtp.count"});
  bench.checkpoint.config["num_nextn_predict_layers"] = 0;
  CHECK(bench.codes() == Codes{"mtp.count"});
}

TEST_CASE("mtp.not-ignored: a plain drafter in a recipe that does not name it") {
  AuditBench bench(kMxfp4);
  bench.checkpoint.config["quantization_config"]["ignore"] = {"re:^layers.*"};
  CHECK(bench.codes() == Codes{"mtp.not-ignored"});
}

TEST_CASE("serving.drafter-names: a main layer's tensor called mtp, and layers beyond the last") {
  AuditBench inside(kMxfp4);
  inside.checkpoint.add("layers.1.mtp.norm.weight", "BF16", {192});
  CHECK(inside.codes() == Codes{"serving.drafter-names"});
  AuditBench beyond(kNvfp4);
  beyond.checkpoint.add("model.layers.3.input_layernorm.weight", "BF16", {192});
  CHECK(beyond.codes().contains("serving.drafter-names"));
}
