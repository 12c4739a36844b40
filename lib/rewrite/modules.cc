#include "rewrite/modules.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"
#include "checkpoint/layout.h"
#include "checkpoint/tensor_name.h"
#include "format/slice.h"

namespace planesmith {
namespace {

constexpr std::string_view kWords[] = {
    "weight",           "weight_packed",       "weight_scale", "weight_scale_inv",   "scale",
    "weight_scale_2",   "weight_global_scale", "input_scale",  "input_global_scale", "weight_shape",
    "weight_zero_point"};
constexpr std::string_view kForeign[] = {"qweight", "qzeros", "scales", "g_idx", "absmax", "quant_map"};
constexpr std::string_view kExperts = ".experts.";

struct Fused {
  std::string_view part;
  std::vector<std::string_view> projections;  // in the order of the rows
};
const Fused kFused[] = {{"gate_up_proj", {"gate_proj", "up_proj"}},
                        {"w13", {"w1", "w3"}},
                        {"gate_proj", {"gate_proj"}},
                        {"up_proj", {"up_proj"}},
                        {"down_proj", {"down_proj"}},
                        {"w1", {"w1"}},
                        {"w2", {"w2"}},
                        {"w3", {"w3"}}};

bool is_word(std::string_view text) {
  return std::find(std::begin(kWords), std::end(kWords), text) != std::end(kWords);
}
bool is_byte(Dtype dtype) {
  return dtype == Dtype::u8 || dtype == Dtype::i8;
}
bool is_power(Dtype dtype) {
  return dtype == Dtype::u8 || dtype == Dtype::f8_e8m0;
}
bool is_float(Dtype dtype) {
  return dtype == Dtype::bf16 || dtype == Dtype::f16 || dtype == Dtype::f32;
}
std::uint64_t parts_of(std::uint64_t n, std::uint64_t size) {
  return (n + size - 1) / size;
}

class Finder {
 public:
  Finder(const Checkpoint& checkpoint, const QuantRecipe& recipe) : checkpoint_(checkpoint), recipe_(recipe) {
    const Json& layers = config_value(checkpoint.config(), "num_hidden_layers");
    layers_ = layers.is_number_unsigned() ? layers.get<std::uint64_t>() : 0;
  }

  Modules run() && {
    for (const Tensor& tensor : checkpoint_.tensors())
      if (!take_fused(tensor)) take_one(tensor);
    for (auto& [name, parts] : modules_) settle(name, std::move(parts));
    return std::move(found_);
  }

 private:
  using Parts = std::map<std::string, View, std::less<>>;

  Error refuse(const Tensor& tensor, std::string reason) const {
    return Error(checkpoint_.shard_path(tensor), std::move(reason))
        .in_tensor(tensor.name)
        .at(tensor.described_at);
  }

  void take_one(const Tensor& tensor) {
    const std::size_t dot = tensor.name.rfind('.');
    const std::string_view word =
        dot == std::string::npos ? std::string_view() : std::string_view(tensor.name).substr(dot + 1);
    if (std::find(std::begin(kForeign), std::end(kForeign), word) != std::end(kForeign))
      throw refuse(tensor, fmt::format("is in {}, which the engine does not serve; start from the model's "
                                       "float weights (repack-experts quantize)",
                                       recipe_.method.empty() ? "a packed integer format" : recipe_.title()));
    if (is_word(word))
      modules_[tensor.name.substr(0, dot)].emplace(word, View{&tensor, 0, tensor.size, tensor.shape});
    else
      found_.others.push_back(&tensor);
  }

  // "<stem>.experts.gate_up_proj", "...gate_up_proj_scale_inv", "...gate_up_proj.weight_scale": all experts
  // in one.
  bool take_fused(const Tensor& tensor) {
    const std::size_t at = tensor.name.find(kExperts);
    if (at == std::string::npos || tensor.shape.empty()) return false;
    const std::string_view rest = std::string_view(tensor.name).substr(at + kExperts.size());
    for (const Fused& fused : kFused) {
      if (!rest.starts_with(fused.part)) continue;
      std::string word(rest.substr(fused.part.size()));
      if (word.empty()) word = ".weight";
      if (word[0] != '.' && word[0] != '_') continue;
      word.erase(0, 1);
      if (word == "blocks" || word == "scales" || word == "bias")
        throw refuse(tensor,
                     "belongs to fused experts with biases (gpt-oss), which the engine does not serve; they "
                     "cannot be translated");
      if (!is_word(word) && is_word("weight_" + word)) word = "weight_" + word;
      if (!is_word(word)) continue;
      if (word == "weight" && is_float(tensor.dtype)) return false;  // not quantized
      split(tensor, tensor.name.substr(0, at + kExperts.size()), fused, word);
      return true;
    }
    return false;
  }

  // Splits [E, rows of all projections, ...], or scalars: one for each expert, or for each expert and
  // projection.
  void split(const Tensor& tensor, const std::string& stem, const Fused& fused, const std::string& word) {
    const std::uint64_t experts = tensor.shape[0], projections = fused.projections.size();
    if (experts == 0)
      throw refuse(tensor, fmt::format("has shape {}; the first dimension should be the number of experts",
                                       shape_text(tensor.shape)));
    const std::uint64_t each = tensor.size / experts;
    const bool scalar =
        tensor.shape.size() == 1 || (tensor.shape.size() == 2 && tensor.shape[1] <= projections);
    const bool shared = scalar && (tensor.shape.size() == 1 || tensor.shape[1] == 1);
    if (!shared && tensor.shape[1] % projections != 0)
      throw refuse(
          tensor,
          fmt::format(
              "has shape {}: its rows cannot be divided between gate and up; a scale block covers both",
              shape_text(tensor.shape)));
    const std::uint64_t size = shared ? each : each / projections;
    for (std::uint64_t e = 0; e < experts; ++e)
      for (std::uint64_t p = 0; p < projections; ++p) {
        View view{&tensor, e * each + (shared ? 0 : p * size), size, {}};
        if (!scalar) {
          view.shape.assign(tensor.shape.begin() + 1, tensor.shape.end());
          view.shape[0] /= projections;
        }
        modules_[fmt::format("{}{}.{}", stem, e, fused.projections[p])].emplace(word, view);
      }
  }

  void settle(const std::string& name, Parts parts) {
    QuantModule module;
    module.name = name;
    module.parts = std::move(parts);
    const View *packed = module.part("weight_packed"),
               *weight = packed != nullptr ? packed : module.part("weight");
    if (weight == nullptr || is_float(weight->dtype()) || recipe_.ignores(name)) {
      leave(module);
      return;
    }
    const QuantGroup* group = recipe_.group_of(name);
    for (auto& [word, view] : module.parts)
      if (is_block_grid(view.shape)) view.shape = {view.shape[0], view.shape[2]};
    const View* scale = module.part({"weight_scale", "weight_scale_inv", "scale"});
    if (scale == nullptr)
      throw refuse(*weight->tensor, fmt::format("is a weight of dtype {} without a scale; was a tensor lost?",
                                                dtype_text(*weight->tensor)));
    if (weight->shape.size() != 2)
      throw refuse(*weight->tensor,
                   fmt::format("has shape {}; a matrix was expected", shape_text(weight->shape)));
    module.rows = weight->shape[0];
    module.cols = weight->shape[1];
    if (group != nullptr) {
      module.format = group->format;
      module.activations = group->activations;
      module.block_rows = group->block_rows;
      module.block_cols = group->block_cols;
    }
    if (module.block_rows == 0) module.block_rows = module.block_cols = kFp8Block;
    const TensorName parsed = parse_tensor_name(name + ".weight", layers_, 2);
    module.expert = parsed.kind == TensorName::Kind::expert ||
                    (parsed.main_layer && parsed.kind == TensorName::Kind::strange_expert);
    module.scheme = scheme_of(module, *weight, *scale, group);
    if (module.scheme == Scheme::nvfp4 || module.scheme == Scheme::mxfp4) {
      if (weight->dtype() != Dtype::f4) module.cols *= 2;
      expect(*scale,
             {module.rows, parts_of(module.cols, module.scheme == Scheme::nvfp4 ? kNvfp4Group : kMxfp4Group)},
             module);
    }
    if (module.scheme == Scheme::nvfp4 && module.part({"weight_scale_2", "weight_global_scale"}) == nullptr)
      throw refuse(
          *weight->tensor,
          fmt::format("'{}' has neither weight_scale_2 nor weight_global_scale; was a tensor lost?", name));
    if (module.scheme == Scheme::fp8_block)
      expect(*scale, {parts_of(module.rows, module.block_rows), parts_of(module.cols, module.block_cols)},
             module);
    found_.quantized.push_back(std::move(module));
  }

  void leave(const QuantModule& module) {
    const View* weight = module.part("weight");
    for (const auto& [word, view] : module.parts)
      if (left_.insert(view.tensor).second) found_.others.push_back(view.tensor);
    if (weight != nullptr && weight->shape.size() >= 2) found_.unquantized.insert(module.name);
  }

  void expect(const View& view, const std::vector<std::uint64_t>& shape, const QuantModule& module) const {
    if (view.shape != shape)
      throw refuse(*view.tensor,
                   fmt::format("has shape {} for '{}'; {} was expected beside a weight of {} x {} ({})",
                               shape_text(view.shape), module.name, shape_text(shape), module.rows,
                               module.cols, describe(module.scheme)));
  }

  // Decides by dtypes and shapes, and by the recipe where a shape is ambiguous.
  static Scheme scheme_of(const QuantModule& module, const View& weight, const View& scale,
                          const QuantGroup* group) {
    const Dtype w = weight.dtype(), s = scale.dtype();
    if (is_byte(w) || w == Dtype::f4) {
      if (s == Dtype::f8_e4m3) return Scheme::nvfp4;
      if (is_power(s)) return Scheme::mxfp4;
      return Scheme::integer;
    }
    if (w == Dtype::i32 || w == Dtype::u32) return Scheme::integer;
    if (w != Dtype::f8_e4m3) return Scheme::unknown;
    std::uint64_t elements = 1;
    for (const std::uint64_t n : scale.shape) elements *= n;
    if (scale.shape.size() <= 1 && elements == 1) return Scheme::fp8_tensor;
    if (scale.shape.size() != 2)
      return scale.shape.size() == 1 && elements == module.rows ? Scheme::fp8_channel : Scheme::unknown;
    if (is_power(s) && scale.shape[0] == module.rows && scale.shape[1] == parts_of(module.cols, kMxfp4Group))
      return Scheme::mxfp8;
    const bool block = scale.shape[0] == parts_of(module.rows, module.block_rows) &&
                       scale.shape[1] == parts_of(module.cols, module.block_cols);
    const bool channel = scale.shape[1] == 1 && scale.shape[0] == module.rows;
    if (block && channel) return group != nullptr ? group->scheme : Scheme::fp8_block;
    return channel ? Scheme::fp8_channel : block ? Scheme::fp8_block : Scheme::unknown;
  }

  const Checkpoint& checkpoint_;
  const QuantRecipe& recipe_;
  std::uint64_t layers_ = 0;
  std::map<std::string, Parts> modules_;
  std::set<const Tensor*> left_;
  Modules found_;
};

}  // namespace

const View* QuantModule::part(std::string_view word) const {
  const auto at = parts.find(word);
  return at == parts.end() ? nullptr : &at->second;
}
const View* QuantModule::part(std::initializer_list<std::string_view> words) const {
  for (const std::string_view word : words)
    if (const View* view = part(word)) return view;
  return nullptr;
}
const View& QuantModule::weight() const {
  return *part({"weight_packed", "weight"});
}
const View& QuantModule::scale() const {
  return *part({"weight_scale", "weight_scale_inv", "scale"});
}

std::string_view describe(Scheme scheme) {
  switch (scheme) {
    case Scheme::none:
      return "not quantized";
    case Scheme::nvfp4:
      return "NVFP4";
    case Scheme::mxfp4:
      return "MXFP4";
    case Scheme::fp8_block:
      return "FP8 in blocks";
    case Scheme::fp8_channel:
      return "FP8 with a scale for each row";
    case Scheme::fp8_tensor:
      return "FP8 with one scale for a tensor";
    case Scheme::mxfp8:
      return "MXFP8";
    case Scheme::integer:
      return "packed integers";
    case Scheme::unknown:
      break;
  }
  return "an unknown scheme";
}

Modules find_modules(const Checkpoint& checkpoint, const QuantRecipe& recipe) {
  return Finder(checkpoint, recipe).run();
}

}  // namespace planesmith
