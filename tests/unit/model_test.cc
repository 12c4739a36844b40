// Routed experts: family, geometry, completeness.
#include "checkpoint/model.h"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <cmath>
#include <limits>

#include "base/error.h"
#include "safetensors_files.h"

using namespace planesmith;

namespace {

struct Golden {
  const char* name;
  Family family;
  format::Geometry geometry;
  std::vector<std::uint64_t> layers;
  std::uint32_t block_rows, block_cols;
  ScaleType scale_type;
};

const Golden kGoldens[] = {
    {"ds4-mini", Family::mxfp4, {2, 3, 192, 128}, {0, 1}, 1, 32, ScaleType::e8m0},
    {"fp8-blocks", Family::fp8, {1, 1, 128, 128}, {0}, 32, 64, ScaleType::f32},
    {"fp8-edge", Family::fp8, {1, 8, 192, 128}, {0}, 128, 128, ScaleType::f32},
    {"glm-fp8-mini", Family::fp8, {3, 2, 256, 256}, {1, 2}, 128, 128, ScaleType::f32},
    {"glm-nvfp4-mini", Family::nvfp4, {3, 3, 192, 128}, {1, 2}, 1, 16, ScaleType::e4m3},
    {"kimi-nvfp4-mini", Family::nvfp4, {2, 2, 128, 128}, {1}, 1, 16, ScaleType::e4m3},
    {"nvfp4-edge", Family::nvfp4, {1, 8, 192, 128}, {0}, 1, 16, ScaleType::e4m3},
};

}  // namespace

TEST_CASE("the experts of every golden checkpoint are found") {
  for (const Golden& golden : kGoldens) {
    CAPTURE(golden.name);
    const Checkpoint checkpoint =
        Checkpoint::open(Context{}, SOURCE_DIR "/tests/golden/" + std::string(golden.name) + "/checkpoint");
    const Model model = find_experts(checkpoint);
    CHECK(name(model.family) == name(golden.family));
    CHECK(model.geometry == golden.geometry);
    CHECK(model.block_rows == golden.block_rows);
    CHECK(model.block_cols == golden.block_cols);
    CHECK(model.scale_type == golden.scale_type);
    REQUIRE(model.layers.size() == golden.layers.size());
    std::uint64_t tensors = 0;
    for (std::size_t key = 0; key < model.layers.size(); ++key) {
      const SparseLayer& layer = model.layers[key];
      CHECK(layer.index == golden.layers[key]);
      CHECK(layer.key == key);
      CHECK(model.find_layer(layer.index) == &layer);
      REQUIRE(layer.experts.size() == model.geometry.experts);
      for (std::size_t e = 0; e < layer.experts.size(); ++e)
        for (int p = 0; p < kProjections; ++p) {
          const ExpertTensors& t = layer.experts[e][static_cast<std::size_t>(p)];
          const char* names[][2] = {{"w1", "gate_proj"}, {"w3", "up_proj"}, {"w2", "down_proj"}};
          REQUIRE(t.weight != nullptr);
          REQUIRE(t.scale != nullptr);
          CHECK((t.scale_2 != nullptr) == (model.family == Family::nvfp4));
          for (const Tensor* tensor : {t.weight, t.scale, t.scale_2})
            if (tensor != nullptr) {
              ++tensors;
              const auto has = [&](std::string part) { return tensor->name.find(part) != std::string::npos; };
              CHECK(has(fmt::format("layers.{}.", layer.index)));
              CHECK(has(fmt::format(".experts.{}.", e)));
              CHECK((has(fmt::format(".{}.", names[p][0])) || has(fmt::format(".{}.", names[p][1]))));
            }
          CHECK(t.weight->name.ends_with(".weight"));
        }
    }
    CHECK(model.find_layer(99) == nullptr);
    for (const auto& [kind, left] : model.left_alone)
      if (kind != "other") tensors += left.tensors;
    CHECK(tensors == checkpoint.tensors().size());  // each is converted or left alone for a reason, and once
  }
}

TEST_CASE("a scalar is read, and must be finite") {
  const Scratch scratch;
  const std::string path = scratch / "x.safetensors";
  const auto value = [&](float number) {
    std::string data(reinterpret_cast<const char*>(&number), 4);
    put_file(path, safetensors(R"({"s":{"dtype":"F32","shape":[],"data_offsets":[0,4]}})", data));
    const File file = File::open_read(posix(), path);
    return read_scalar(file, read_safetensors_header(file).tensors[0]);
  };
  for (const float good : {0.f, -1.5f, 3e-41f, 3.4e38f}) CHECK(value(good) == good);
  for (const float bad :
       {std::nanf(""), std::numeric_limits<float>::infinity(), -std::numeric_limits<float>::infinity()})
    CHECK_THROWS_WITH_AS(value(bad), doctest::Contains("tensor 's': at byte 61: element 0 is"), Error);
}
