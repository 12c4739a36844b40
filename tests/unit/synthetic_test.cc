// The synthetic checkpoints are as realistic as the demo, benchmarks and other tests assume.
#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>
#include <string>
#include <vector>

#include "checkpoint/model.h"
#include "format/number.h"
#include "scratch.h"
#include "synthetic/model.h"
#include "synthetic/weights.h"
#include "synthetic/write.h"

using namespace planesmith;
using namespace planesmith::synthetic;

namespace {

Tensor tensor(std::string name, Dtype dtype, std::vector<std::uint64_t> shape) {
  Tensor t;
  t.name = std::move(name);
  t.dtype = dtype;
  t.shape = std::move(shape);
  t.size = bits(dtype) / 8;
  for (const std::uint64_t n : t.shape) t.size *= n;
  return t;
}

std::vector<std::uint8_t> filled(const Weights& weights, const Tensor& t) {
  std::vector<std::uint8_t> bytes(t.size);
  weights.fill(t, 0, bytes);
  return bytes;
}

}  // namespace

TEST_CASE("MXFP4 codes have the statistics of real experts") {
  const Weights weights(7, 8);
  const auto codes = filled(weights, tensor("layers.0.ffn.experts.0.w1.weight", Dtype::i8, {2048, 256}));
  std::array<double, 16> histogram{};
  for (const std::uint8_t byte : codes) {
    ++histogram[byte & 15u];
    ++histogram[byte >> 4];
  }
  const double n = 2. * static_cast<double>(codes.size());
  const double zeros = histogram[0] + histogram[8];
  CHECK(zeros / n == doctest::Approx(.116).epsilon(.05));
  CHECK(histogram[8] / zeros == doctest::Approx(.5).epsilon(.02));
  // Magnitudes as in the engine's golden DeepSeek-V4 checkpoint.
  constexpr double golden[8] = {.1141, .2073, .1658, .1266, .1341, .1095, .0864, .0561};
  for (std::size_t m = 0; m < 8; ++m)
    CHECK(std::abs((histogram[m] + histogram[m + 8]) / n - golden[m]) < .012);

  // Every block was scaled by its maximum: a code of 4 or 6 in each.
  bool scaled = true;
  for (std::size_t block = 0; block < codes.size(); block += 16)
    scaled &= std::any_of(&codes[block], &codes[block] + 16,
                          [](std::uint8_t byte) { return (byte & 7) >= 6 || (byte >> 4 & 7) >= 6; });
  CHECK(scaled);

  const auto scales = filled(weights, tensor("layers.0.ffn.experts.0.w1.scale", Dtype::f8_e8m0, {2048, 16}));
  CHECK(std::all_of(scales.begin(), scales.end(), [](std::uint8_t b) { return b >= 112 && b <= 128; }));
  CHECK(std::adjacent_find(scales.begin(), scales.end(), std::not_equal_to<>()) != scales.end());
}

TEST_CASE("NVFP4 and FP8 bytes are numbers, their blocks scaled by the maximum") {
  const Weights weights(7, 8);
  const auto codes =
      filled(weights, tensor("model.layers.1.mlp.experts.0.up_proj.weight", Dtype::u8, {256, 256}));
  for (std::size_t block = 0; block < codes.size(); block += 8) {
    const bool scaled = std::any_of(&codes[block], &codes[block] + 8, [](std::uint8_t byte) {
      return (byte & 7) == 7 || (byte >> 4 & 7) == 7;
    });
    REQUIRE(scaled);
  }
  const auto scales =
      filled(weights, tensor("model.layers.1.mlp.experts.0.up_proj.weight_scale", Dtype::f8_e4m3, {256, 32}));
  for (const std::uint8_t b : scales) REQUIRE((b > 0 && b < 0x7f));
  const auto fp8 =
      filled(weights, tensor("model.layers.1.mlp.experts.0.up_proj.weight", Dtype::f8_e4m3, {256, 256}));
  CHECK(std::none_of(fp8.begin(), fp8.end(), format::e4m3_is_nan));
  CHECK(std::count_if(fp8.begin(), fp8.end(), [](std::uint8_t b) { return b & 0x80; }) ==
        doctest::Approx(fp8.size() / 2.).epsilon(.05));
}

TEST_CASE("pieces make the same bytes as the whole, names and seeds different ones") {
  const Weights weights(7, 8);
  for (const Tensor& t :
       {tensor("layers.0.ffn.experts.0.w1.weight", Dtype::i8, {96, 64}),
        tensor("layers.0.ffn.experts.0.w1.scale", Dtype::f8_e8m0, {96, 4}),
        tensor("a.weight_scale", Dtype::f8_e4m3, {96, 8}), tensor("a.weight", Dtype::bf16, {48, 5}),
        tensor("a.weight_scale_inv", Dtype::f32, {48, 5}), tensor("tid2eid", Dtype::i64, {60, 6})}) {
    CAPTURE(t.name);
    const auto whole = filled(weights, t);
    std::vector<std::uint8_t> pieces(t.size);
    for (std::uint64_t at = 0; at < t.size; at += 48)
      weights.fill(t, at, Bytes(pieces).subspan(at, std::min<std::uint64_t>(48, t.size - at)));
    CHECK(pieces == whole);
    CHECK(filled(Weights(8, 8), t) != whole);
    Tensor other = t;
    other.name = "b." + t.name;
    CHECK(filled(weights, other) != whole);
  }
}

TEST_CASE("every style is a checkpoint whose routed experts are all there") {
  const Context context;
  struct Case {
    Style style;
    Family family;
    std::uint64_t dense;
  };
  for (const Case& c :
       {Case{Style::deepseek_v4, Family::mxfp4, 0}, Case{Style::glm_fp8, Family::fp8, 1},
        Case{Style::glm_nvfp4, Family::nvfp4, 2}, Case{Style::kimi_nvfp4, Family::nvfp4, 1}}) {
    const Scratch scratch;
    const Spec spec{c.style, {4, 3, 256, 128}, c.dense, 1};
    const auto shards = cut_into_shards(tensors_of(spec), 3);
    const std::string directory = scratch / "checkpoint";
    make_dirs(context.os, directory);
    const std::uint64_t total = write_shards(context, directory, shards);
    write_atomically(context.os, join(directory, "model.safetensors.index.json"), index_json(shards, total));
    write_atomically(context.os, join(directory, "config.json"), pretty(config_of(spec)));
    const std::uint64_t written =
        fill_shards(context, directory, shards, Weights(1, 3), [](const Tensor&) { return true; });
    CHECK(written == total);

    const Checkpoint checkpoint = Checkpoint::open(context, directory);
    const Model model = find_experts(checkpoint);
    CHECK(model.family == c.family);
    CHECK(model.geometry == spec.geometry);
    CHECK(model.layers.size() == 4 - c.dense);
    CHECK(model.layers.front().index == c.dense);
    CHECK(model.left_alone.contains("MTP"));
    CHECK(model.left_alone.contains("shared experts"));
    CHECK(model.left_alone.contains("router"));
  }
}
