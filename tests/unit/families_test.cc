// The table of families: rows that kernels, the reader of names and the plan can rely on.
#include <doctest/doctest.h>

#include <algorithm>
#include <set>

#include "checkpoint/family.h"
#include "checkpoint/tensor_name.h"

using namespace planesmith;

TEST_CASE("each row is of its own family, and its numbers fit together") {
  std::set<Family> seen;
  for (const FamilyTraits& row : families()) {
    CAPTURE(row.name);
    CHECK(seen.insert(row.family).second);
    CHECK(&traits(row.family) == &row);
    CHECK((row.block_rows == 0) == (row.block_cols == 0));
    CHECK(row.weight_bytes(64) == 8 * row.weight_bits);
    for (const std::string_view suffix : row.scale_suffixes)
      CHECK(std::any_of(suffixes().begin(), suffixes().end(), [&](const Suffix& known) {
        return known.text == suffix && known.role == Role::scale;
      }));
    for (const Dtype dtype : row.scales) CHECK(scale_type(dtype).has_value());
    const std::uint8_t byte = 0;
    const Slice slice = row.slice({16, 64, &byte, 32, &byte, 4, 1, 64, ScaleType::f32, 1});
    std::visit([](const auto& s) { CHECK((s.rows == 16 && s.cols == 64 && s.scale_stride == 4)); }, slice);
  }
}

TEST_CASE("dtypes and suffixes decide the family") {
  const auto tensor = [](std::string name, Dtype dtype, std::vector<std::uint64_t> shape) {
    Tensor t;
    t.name = std::move(name);
    t.dtype = dtype;
    t.shape = std::move(shape);
    return t;
  };
  struct Row {
    Dtype weight, scale;
    const char* suffix;
    std::optional<Family> family;
  };
  for (const Row& row : {Row{Dtype::i8, Dtype::f8_e8m0, "scale", Family::mxfp4},
                         Row{Dtype::u8, Dtype::u8, "weight_scale", Family::mxfp4},
                         Row{Dtype::f4, Dtype::f8_e8m0, "weight_scale_inv", Family::mxfp4},
                         Row{Dtype::u8, Dtype::f8_e4m3, "weight_scale", Family::nvfp4},
                         Row{Dtype::u8, Dtype::f8_e4m3, "scale", std::nullopt},
                         Row{Dtype::f8_e4m3, Dtype::f32, "weight_scale", Family::fp8},
                         Row{Dtype::f8_e4m3, Dtype::bf16, "weight_scale_inv", Family::fp8},
                         Row{Dtype::f8_e4m3, Dtype::f16, "weight_scale_inv", std::nullopt},
                         Row{Dtype::bf16, Dtype::f32, "weight_scale", std::nullopt}}) {
    CAPTURE(row.suffix);
    const Tensor weight = tensor("x.weight", row.weight, {16, 64});
    const Tensor scale = tensor(std::string("x.") + row.suffix, row.scale, {16, 2});
    ProjectionTensors tensors;
    tensors.of[static_cast<std::size_t>(Role::weight)] = &weight;
    CHECK_FALSE(family_of(tensors));
    tensors.of[static_cast<std::size_t>(Role::scale)] = &scale;
    CHECK(family_of(tensors) == row.family);
    if (!row.family) CHECK_FALSE(unserved_layout(tensors).what.empty());
  }
}

TEST_CASE("names: prefixes, blocks, projections, components that are left alone") {
  struct Row {
    const char* name;
    TensorName::Kind kind;
    const char* prefix;
  };
  using Kind = TensorName::Kind;
  for (const Row& row :
       {Row{"layers.1.ffn.experts.0.w1.weight", Kind::expert, ""},
        Row{"model.layers.1.mlp.experts.0.w3.weight_scale", Kind::expert, "model."},
        Row{"language_model.layers.1.block_sparse_moe.experts.7.w2.scale", Kind::expert, "language_model."},
        Row{"model.language_model.layers.1.ffn.experts.0.up_proj.weight_scale_inv", Kind::expert,
            "model.language_model."},
        Row{"vision_tower.layers.1.mlp.experts.0.w1.weight", Kind::other, ""},
        Row{"audio_encoder.layers.1.mlp.experts.0.w1.weight", Kind::other, ""},
        Row{"model.eagle.layers.1.mlp.experts.0.w1.weight", Kind::other, ""},
        Row{"model.mtp.layers.1.mlp.experts.0.w1.weight", Kind::other, ""},
        Row{"mtp.2.ffn.experts.1.w2.scale", Kind::draft_expert, ""},
        Row{"mtp.2.ffn.shared_experts.w2.scale", Kind::other, ""},
        Row{"layers.1.ffn.experts.0.w4.weight", Kind::strange_expert, ""},
        Row{"layers.9.ffn.experts.0.w1.weight", Kind::other, ""}}) {
    CAPTURE(row.name);
    const TensorName name = parse_tensor_name(row.name, 9, 2);
    CHECK(name.kind == row.kind);
    if (row.kind == Kind::expert) CHECK(name.prefix == row.prefix);
  }
  ExpertSpelling spelling(9);
  spelling.learn(parse_tensor_name("a.layers.1.mlp.experts.0.w1.weight_scale", 9, 2));
  CHECK(spelling.name(3, 5, Projection::w2, Role::scale) == "a.layers.3.mlp.experts.5.w2.weight_scale");
  CHECK(spelling.name(10, 5, Projection::w3, Role::weight) == "mtp.1.mlp.experts.5.w3.weight");
}
