#include "rewrite/float_experts.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "base/error.h"
#include "checkpoint/layout.h"
#include "checkpoint/tensor_name.h"
#include "rewrite/modules.h"

namespace planesmith {
namespace {

constexpr std::string_view kWeight = ".weight", kExperts = ".experts.";

class Finder {
 public:
  explicit Finder(const Checkpoint& checkpoint) : checkpoint_(checkpoint) {
    found_.geometry = config_geometry(checkpoint.config(), join(checkpoint.directory(), kConfigName));
  }

  FloatExperts run() && {
    for (const Tensor& tensor : checkpoint_.tensors()) sort_out(tensor);
    if (const auto first = first_sparse_layer(checkpoint_.config()))
      for (std::uint64_t layer = *first; layer < found_.geometry.layers; ++layer) sparse_.insert(layer);
    if (layers_.empty())
      throw Error(checkpoint_.directory(),
                  fmt::format("no routed experts among {} tensors; is this a mixture-of-experts checkpoint?",
                              checkpoint_.tensors().size()));
    refuse_missing();
    for (auto& [index, experts] : layers_) found_.layers.push_back({index, std::move(experts)});
    return std::move(found_);
  }

 private:
  Error refuse(const Tensor& tensor, std::string reason) const {
    return Error(checkpoint_.shard_path(tensor), std::move(reason))
        .in_tensor(tensor.name)
        .at(tensor.described_at);
  }

  void sort_out(const Tensor& tensor) {
    const std::uint64_t layers = found_.geometry.layers;
    TensorName name = parse_tensor_name(tensor.name, layers, tensor.shape.size());
    if (name.kind == TensorName::Kind::strange_expert)  // the name may lack ".weight"
      if (const TensorName longer =
              parse_tensor_name(tensor.name + std::string(kWeight), layers, tensor.shape.size());
          longer.kind == TensorName::Kind::expert)
        name = longer;
    if (name.main_layer && name.left_as == "router") sparse_.insert(name.layer);
    if (name.kind == TensorName::Kind::other || !name.main_layer) return;
    if (name.kind == TensorName::Kind::expert && name.role == Role::weight)
      add_one(tensor, name);
    else if (name.kind == TensorName::Kind::fused_experts && take_fused(tensor, name.layer))
      found_.fused = true;
    else
      throw refuse(
          tensor,
          "is not a float weight of a routed expert; only checkpoints whose experts are BF16, F16 or "
          "F32 can be quantized");
    found_.tensors.push_back(&tensor);
  }

  FloatType type_of(const Tensor& tensor) const {
    if (const auto type = float_type(tensor.dtype)) return *type;
    throw refuse(
        tensor,
        fmt::format("has dtype {}: these experts are quantized already; repack-experts translate changes "
                    "their layout, build-planescache takes those that the engine serves",
                    dtype_text(tensor)));
  }

  void put(std::uint64_t layer, std::uint64_t expert, Projection projection, FloatMatrix matrix) {
    const format::Geometry& g = found_.geometry;
    if (expert >= g.experts)
      throw refuse(
          *matrix.tensor,
          fmt::format("is of expert {}, but config.json has {} experts, counted from 0", expert, g.experts));
    sparse_.insert(layer);
    auto& experts = layers_[layer];
    experts.resize(g.experts);
    FloatMatrix& place = experts[expert][static_cast<std::size_t>(projection)];
    if (place.tensor != nullptr)
      throw refuse(*matrix.tensor, fmt::format("is the same weight as tensor '{}'", place.tensor->name));
    matrix.rows = projection == Projection::w2 ? g.hidden : g.intermediate;
    matrix.cols = projection == Projection::w2 ? g.intermediate : g.hidden;
    place = std::move(matrix);
  }

  void check_shape(const Tensor& tensor, const std::vector<std::uint64_t>& expected) const {
    if (tensor.shape == expected) return;
    std::vector<std::uint64_t> turned = expected;
    std::swap(turned[turned.size() - 1], turned[turned.size() - 2]);
    throw refuse(
        tensor, fmt::format("has shape {}; {} was expected{}", shape_text(tensor.shape), shape_text(expected),
                            tensor.shape == turned
                                ? " (this architecture stores the matrix transposed, which is not supported)"
                                : ""));
  }

  void add_one(const Tensor& tensor, const TensorName& name) {
    const format::Geometry& g = found_.geometry;
    FloatMatrix matrix;
    matrix.tensor = &tensor;
    matrix.type = type_of(tensor);
    matrix.module = tensor.name;
    if (matrix.module.ends_with(kWeight)) matrix.module.resize(matrix.module.size() - kWeight.size());
    check_shape(tensor, name.projection == Projection::w2 ? std::vector{g.hidden, g.intermediate}
                                                          : std::vector{g.intermediate, g.hidden});
    put(name.layer, name.expert, name.projection, std::move(matrix));
  }

  // "<stem>.experts.gate_up_proj" and the like.
  bool take_fused(const Tensor& tensor, std::uint64_t layer) {
    const format::Geometry& g = found_.geometry;
    const std::size_t at = tensor.name.find(kExperts) + kExperts.size();
    std::string part = tensor.name.substr(at);
    if (part.ends_with(kWeight)) part.resize(part.size() - kWeight.size());
    if (part != "gate_up_proj" && part != "down_proj") return false;
    const bool down = part == "down_proj";
    const FloatType type = type_of(tensor);
    check_shape(tensor, down ? std::vector{g.experts, g.hidden, g.intermediate}
                             : std::vector{g.experts, 2 * g.intermediate, g.hidden});
    const std::string stem = tensor.name.substr(0, at);
    const bool short_names = stem.ends_with(".ffn.experts.");
    const std::uint64_t each = g.hidden * g.intermediate * bytes_of(type);
    for (std::uint64_t e = 0; e < g.experts; ++e)
      for (int half = 0; half < (down ? 1 : 2); ++half) {
        const Projection projection = down ? Projection::w2 : half == 0 ? Projection::w1 : Projection::w3;
        const std::string_view name = down        ? (short_names ? "w2" : "down_proj")
                                      : half == 0 ? (short_names ? "w1" : "gate_proj")
                                                  : (short_names ? "w3" : "up_proj");
        FloatMatrix matrix;
        matrix.tensor = &tensor;
        matrix.type = type;
        matrix.offset = (down ? e : 2 * e + static_cast<std::uint64_t>(half)) * each;
        matrix.module = fmt::format("{}{}.{}", stem, e, name);
        put(layer, e, projection, std::move(matrix));
      }
    return true;
  }

  void refuse_missing() {
    std::uint64_t missing = 0;
    std::string first;
    for (const std::uint64_t layer : sparse_) {
      auto& experts = layers_[layer];
      experts.resize(found_.geometry.experts);
      for (std::uint64_t e = 0; e < experts.size(); ++e)
        for (int p = 0; p < kProjections; ++p)
          if (experts[e][static_cast<std::size_t>(p)].tensor == nullptr && missing++ == 0)
            first = fmt::format("the {} projection of expert {} in layer {}",
                                p == 0   ? "gate"
                                : p == 1 ? "up"
                                         : "down",
                                e, layer);
    }
    if (missing != 0)
      throw Error(checkpoint_.directory(),
                  fmt::format("{} sparse layers x {} experts x 3 = {} expert weights were expected, {} are "
                              "missing; the first is {}",
                              sparse_.size(), found_.geometry.experts,
                              sparse_.size() * found_.geometry.experts * kProjections, missing, first));
  }

  const Checkpoint& checkpoint_;
  FloatExperts found_;
  std::map<std::uint64_t, std::vector<std::array<FloatMatrix, kProjections>>> layers_;
  std::set<std::uint64_t> sparse_;
};

}  // namespace

std::optional<FloatType> float_type(Dtype dtype) {
  switch (dtype) {
    case Dtype::bf16:
      return FloatType::bf16;
    case Dtype::f16:
      return FloatType::f16;
    case Dtype::f32:
      return FloatType::f32;
    default:
      return std::nullopt;
  }
}

FloatType float_type(const Checkpoint& checkpoint, const View& view) {
  if (const std::optional<FloatType> type = float_type(view.dtype())) return *type;
  throw Error(checkpoint.shard_path(*view.tensor),
              fmt::format("has dtype {}; a float was expected", dtype_text(*view.tensor)))
      .in_tensor(view.tensor->name)
      .at(view.tensor->described_at);
}

void refuse_nonfinite(const Checkpoint& checkpoint, const FloatMatrix& matrix, const FloatValues& values,
                      std::uint64_t first) {
  std::uint64_t at = 0;
  while (at < values.count && std::isfinite(value_at(values, at))) ++at;
  if (at == values.count) return;
  const std::uint64_t element = first + at, byte = matrix.offset + element * bytes_of(matrix.type);
  throw Error(checkpoint.shard_path(*matrix.tensor),
              fmt::format("element [{}, {}] of '{}' is {}; only finite weights can be quantized",
                          element / matrix.cols, element % matrix.cols, matrix.module, value_at(values, at)))
      .in_tensor(matrix.tensor->name)
      .at(matrix.tensor->offset + byte);
}

FloatExperts find_float_experts(const Checkpoint& checkpoint) {
  if (const LayoutVerdict verdict = judge_layout(checkpoint);
      verdict.lead != Lead::quantize && !verdict.sentence.empty())
    throw Error(checkpoint.directory(),
                config_value(checkpoint.config(), "quantization_config").is_object()
                    ? "its experts are quantized already; only BF16, F16 and F32 experts can be quantized: " +
                          verdict.sentence
                    : verdict.sentence);
  return Finder(checkpoint).run();
}

}  // namespace planesmith
