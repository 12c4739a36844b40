#include "checkpoint/model.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <optional>
#include <set>
#include <tuple>

#include "base/error.h"
#include "checkpoint/tensor_name.h"

namespace planesmith {
namespace {

using format::Geometry;

// --- config.json ---

// Far above every model, and low enough that products of a few of them cannot overflow.
constexpr std::uint64_t kMostLayers = 1 << 16, kMostExperts = 1 << 16, kMostColumns = 1 << 24;

std::uint64_t whole_number(const Json& value, std::string_view key, std::uint64_t most,
                           const std::string& path) {
  if (!value.is_number_unsigned() || value.get<std::uint64_t>() == 0 || value.get<std::uint64_t>() > most)
    throw Error(path, fmt::format("\"{}\" is {}; a whole number from 1 to {} was expected", key,
                                  value.is_number() ? value.dump() : value.type_name(), most));
  return value.get<std::uint64_t>();
}

// The first of the keys that is there.
std::uint64_t config_number(const Json& config, std::initializer_list<std::string_view> keys,
                            std::uint64_t most, const std::string& path) {
  for (const std::string_view key : keys)
    if (const Json& value = config_value(config, key); !value.is_null())
      return whole_number(value, key, most, path);
  throw Error(path, fmt::format("lacks \"{}\"", fmt::join(keys, "\" or \"")));
}

std::pair<std::uint32_t, std::uint32_t> weight_block_size(const Json& config, const std::string& path) {
  constexpr std::string_view kKey = "weight_block_size";
  const Json& quantization = config_value(config, "quantization_config");
  if (!quantization.is_object() || !quantization.contains(kKey))
    throw Error(path, fmt::format("lacks \"quantization_config\": {{\"{}\"}}, which FP8 weights need", kKey));
  const Json& block = quantization[std::string(kKey)];
  if (!block.is_array() || block.size() != 2)
    throw Error(path, fmt::format("\"{}\" is not a list of two numbers", kKey));
  return {static_cast<std::uint32_t>(whole_number(block[0], kKey, kMostColumns, path)),
          static_cast<std::uint32_t>(whole_number(block[1], kKey, kMostColumns, path))};
}

// --- what is there ---

struct Found {
  std::uint64_t layer = 0, expert = 0;
  Projection projection = Projection::w1;
  Role role = Role::weight;
  const Tensor* tensor = nullptr;

  auto place() const { return std::tie(layer, expert, projection); }
};

// All tensors of one projection of one expert, by role.
using Slots = std::array<const Tensor*, kRoles>;
const Tensor* at(const Slots& slots, Role role) {
  return slots.at(static_cast<std::size_t>(role));
}

bool is_packed(const Tensor& weight) {
  return weight.dtype == Dtype::i8 || weight.dtype == Dtype::u8;
}
bool is_e8m0(const Tensor& scale) {
  return scale.dtype == Dtype::f8_e8m0 || scale.dtype == Dtype::u8;
}

std::vector<Role> roles_of(Family family) {
  if (family == Family::nvfp4) return {Role::weight, Role::group_scale, Role::scale_2};
  return {Role::weight, Role::block_scale};
}

// Decides by suffixes and dtypes; none where the weight or all scales are missing.
std::optional<Family> family_of(const Slots& slots) {
  const Tensor* weight = at(slots, Role::weight);
  if (weight == nullptr) return std::nullopt;
  if (weight->dtype == Dtype::f8_e4m3) return Family::fp8;
  if (at(slots, Role::group_scale) != nullptr || at(slots, Role::scale_2) != nullptr) return Family::nvfp4;
  if (at(slots, Role::block_scale) != nullptr) return Family::mxfp4;
  return std::nullopt;
}

class Finder {
 public:
  Finder(const Checkpoint& checkpoint, std::uint64_t drafts)
      : checkpoint_(checkpoint), config_path_(join(checkpoint.directory(), kConfigName)) {
    model_.geometry = config_geometry(checkpoint.config(), config_path_);
    model_.geometry.drafts = drafts;
    spelling_ = ExpertSpelling(model_.geometry.layers);
  }

  Model run() && {
    sort_out();
    choose_family();
    refuse_missing();
    fill();
    return std::move(model_);
  }

 private:
  Error refuse(const Tensor& tensor, std::string reason) const {
    return Error(checkpoint_.shard_path(tensor), std::move(reason))
        .in_tensor(tensor.name)
        .at(tensor.described_at);
  }

  void leave(std::string_view kind, const Tensor& tensor) {
    Model::Left& left = model_.left_alone[std::string(kind)];
    ++left.tensors;
    left.bytes += tensor.size;
  }

  void check_number(const TensorName& name, const Tensor& tensor) const {
    if (name.expert >= model_.geometry.experts)
      throw refuse(tensor, fmt::format("is of expert {}, but config.json has {} experts, counted from 0",
                                       name.expert, model_.geometry.experts));
  }

  // Sets apart the tensors of routed experts from those that are left alone.
  void sort_out() {
    const Tensor *fused = nullptr, *strange = nullptr;
    std::uint64_t fused_count = 0;
    std::set<std::uint64_t> blocks;  // of drafters
    for (const Tensor& tensor : checkpoint_.tensors()) {
      const TensorName name = parse_tensor_name(tensor.name, model_.geometry.layers, tensor.shape.size());
      switch (name.kind) {
        case TensorName::Kind::expert:
          check_number(name, tensor);
          sparse_.insert(name.layer);
          spelling_.learn(tensor.name, name.role);
          if (name.role == Role::input_scale) leave("input scales of experts", tensor);
          found_.push_back({name.layer, name.expert, name.projection, name.role, &tensor});
          break;
        case TensorName::Kind::draft_expert:
          blocks.insert(name.layer);
          if (name.layer >= model_.geometry.drafts) {
            leave(name.left_as, tensor);
            break;
          }
          check_number(name, tensor);
          if (name.role == Role::input_scale) leave("input scales of experts", tensor);
          found_.push_back(
              {model_.geometry.layers + name.layer, name.expert, name.projection, name.role, &tensor});
          break;
        case TensorName::Kind::fused_experts:
          if (fused == nullptr) fused = &tensor;
          ++fused_count;
          break;
        case TensorName::Kind::strange_expert:
          if (strange == nullptr || (name.main_layer && !strange_in_main_)) strange = &tensor;
          strange_in_main_ |= name.main_layer;
          leave("experts of other names", tensor);
          break;
        case TensorName::Kind::other:
          if (name.main_layer && name.left_as == "router") sparse_.insert(name.layer);
          leave(name.left_as, tensor);
      }
    }
    if (fused != nullptr)
      throw refuse(
          *fused,
          fmt::format("all experts of a layer in one tensor of shape {} ({} such tensors): fused experts are "
                      "not supported yet; give a checkpoint with one tensor per expert",
                      shape_text(fused->shape), fused_count));
    if (strange != nullptr && (strange_in_main_ || found_.empty()))
      throw refuse(*strange, "looks like a routed expert, but this name is of no known family");
    if (found_.empty())
      throw Error(checkpoint_.directory(),
                  fmt::format("no routed experts among {} tensors; is this a mixture-of-experts checkpoint?",
                              checkpoint_.tensors().size()));
    while (blocks.contains(model_.draft_blocks)) ++model_.draft_blocks;
    if (model_.draft_blocks < model_.geometry.drafts)
      throw Error(
          ErrorCode::usage, checkpoint_.directory(),
          fmt::format("{} drafter blocks are asked for, {} are there (mtp.0, mtp.1, ... with routed experts)",
                      model_.geometry.drafts, model_.draft_blocks));
    for (std::uint64_t draft = 0; draft < model_.geometry.drafts; ++draft)
      sparse_.insert(model_.geometry.layers + draft);
    if (const auto first = first_sparse_layer(checkpoint_.config()))
      for (std::uint64_t layer = *first; layer < model_.geometry.layers; ++layer) sparse_.insert(layer);
    std::sort(found_.begin(), found_.end(), [](const Found& a, const Found& b) {
      return std::tuple_cat(a.place(), std::tie(a.role)) < std::tuple_cat(b.place(), std::tie(b.role));
    });
  }

  // Calls work(first, slots) for each projection that has at least one tensor, in order.
  template <typename Work>
  void for_each_projection(Work work) const {
    for (auto from = found_.begin(); from != found_.end();) {
      Slots slots{};
      auto to = from;
      for (; to != found_.end() && to->place() == from->place(); ++to) {
        const Tensor*& slot = slots[static_cast<std::size_t>(to->role)];
        if (slot != nullptr)
          throw refuse(*to->tensor, fmt::format("means the same as tensor '{}'", slot->name));
        slot = to->tensor;
      }
      work(*from, slots);
      from = to;
    }
  }

  // One family for all, and no tensor that the family does not know.
  void choose_family() {
    const Tensor* decided_by = nullptr;
    for_each_projection([&](const Found&, const Slots& slots) {
      const Tensor* weight = at(slots, Role::weight);
      if (weight != nullptr && !is_packed(*weight) && weight->dtype != Dtype::f8_e4m3)
        throw refuse(
            *weight,
            fmt::format("has dtype {}; expert weights are I8 or U8 (MXFP4, NVFP4) or F8_E4M3 (FP8 block)",
                        dtype_text(*weight)));
      const std::optional<Family> family = family_of(slots);
      if (!family) return;
      if (decided_by == nullptr) {
        decided_by = weight;
        model_.family = *family;
      } else if (*family != model_.family) {
        throw refuse(*weight, fmt::format("is {}, but '{}' is {}; all experts must be of one family",
                                          name(*family), decided_by->name, name(model_.family)));
      }
    });
    const std::vector<Role> known = roles_of(model_.family);
    for (const Found& found : found_)
      if (found.role != Role::input_scale && std::find(known.begin(), known.end(), found.role) == known.end())
        throw refuse(*found.tensor, fmt::format("has no meaning for {} experts", name(model_.family)));
  }

  // The arithmetic: sparse layers x experts x 3, for weights and every kind of scale.
  void refuse_missing() const {
    const std::vector<Role> roles = roles_of(model_.family);
    const auto is_input_scale = [](const Found& found) { return found.role == Role::input_scale; };
    const auto is_weight = [](const Found& found) { return found.role == Role::weight; };
    const auto count = [&](auto test) {
      return static_cast<std::uint64_t>(std::count_if(found_.begin(), found_.end(), test));
    };
    const std::uint64_t weights = sparse_.size() * model_.geometry.experts * kProjections;
    const std::uint64_t present = found_.size() - count(is_input_scale), expected = weights * roles.size();
    if (present == expected) return;  // all places differ, so none is empty

    constexpr std::size_t kNamed = 3;
    std::vector<std::string> missing;
    auto next = found_.begin();
    for (const std::uint64_t layer : sparse_)
      for (std::uint64_t expert = 0; expert < model_.geometry.experts; ++expert)
        for (const Projection projection : {Projection::w1, Projection::w3, Projection::w2})
          for (const Role role : roles) {
            while (next != found_.end() && is_input_scale(*next)) ++next;
            const Found place{layer, expert, projection, role};
            if (next != found_.end() && next->place() == place.place() && next->role == role)
              ++next;
            else if (missing.size() < kNamed)
              missing.push_back(spelling_.name(layer, expert, projection, role));
            else
              return throw_missing(missing, expected - present, weights, count(is_weight));
          }
    throw_missing(missing, expected - present, weights, count(is_weight));
  }

  [[noreturn]] void throw_missing(const std::vector<std::string>& named, std::uint64_t missing,
                                  std::uint64_t weights, std::uint64_t found) const {
    const std::string more =
        missing > named.size() ? fmt::format(" and {} more", missing - named.size()) : "";
    throw Error(checkpoint_.directory(), fmt::format("{} sparse layers x {} experts x 3 = {} expert weights "
                                                     "with their scales were expected, {} weights "
                                                     "found; missing: '{}'{}",
                                                     sparse_.size(), model_.geometry.experts, weights, found,
                                                     fmt::join(named, "', '"), more));
  }

  // Every place is taken once: checks each tensor and puts it where it belongs.
  void fill() {
    if (model_.family == Family::fp8)
      std::tie(model_.block_rows, model_.block_cols) = weight_block_size(checkpoint_.config(), config_path_);
    else
      model_.block_cols = model_.family == Family::nvfp4 ? 16 : 32;
    for (const std::uint64_t layer : sparse_)
      model_.layers.push_back({layer, model_.layers.size(), std::vector<Expert>(model_.geometry.experts)});
    model_.scale_is_e8m0 =
        model_.family == Family::mxfp4 || (model_.family == Family::fp8 && is_e8m0(*first_scale()));

    auto layer = model_.layers.begin();
    for_each_projection([&](const Found& found, const Slots& slots) {
      while (layer->index != found.layer) ++layer;
      ExpertTensors& tensors = layer->experts[found.expert][static_cast<std::size_t>(found.projection)];
      const bool nvfp4 = model_.family == Family::nvfp4;
      tensors = {at(slots, Role::weight), at(slots, nvfp4 ? Role::group_scale : Role::block_scale),
                 at(slots, Role::scale_2)};
      check(tensors, found.projection);
    });
  }

  const Tensor* first_scale() const {
    return std::find_if(found_.begin(), found_.end(),
                        [](const Found& f) { return f.role == Role::block_scale; })
        ->tensor;
  }

  void check(const ExpertTensors& tensors, Projection projection) const {
    const Geometry& g = model_.geometry;
    const std::uint64_t rows = projection == Projection::w2 ? g.hidden : g.intermediate;
    const std::uint64_t cols = projection == Projection::w2 ? g.intermediate : g.hidden;
    const auto parts = [](std::uint64_t n, std::uint64_t size) { return (n + size - 1) / size; };
    const bool packed = model_.family != Family::fp8;
    check_shape(*tensors.weight, {rows, packed ? parts(cols, 2) : cols});

    const Tensor& scale = *tensors.scale;
    const std::string_view wanted = model_.family == Family::nvfp4 ? "F8_E4M3"
                                    : model_.scale_is_e8m0         ? "F8_E8M0"
                                                                   : "F32";
    const bool fits = model_.family == Family::nvfp4 ? scale.dtype == Dtype::f8_e4m3
                      : model_.scale_is_e8m0         ? is_e8m0(scale)
                                                     : scale.dtype == Dtype::f32;
    if (!fits) throw refuse(scale, fmt::format("has dtype {}; {} was expected", dtype_text(scale), wanted));
    check_shape(scale, {parts(rows, model_.block_rows), parts(cols, model_.block_cols)});

    if (tensors.scale_2 == nullptr) return;
    const Tensor& scale_2 = *tensors.scale_2;
    const bool scalar = scale_2.shape.empty() || scale_2.shape == std::vector<std::uint64_t>{1};
    if (scale_2.dtype != Dtype::f32 || !scalar)
      throw refuse(scale_2, fmt::format("is {} of shape {}; one F32 (shape [] or [1]) was expected",
                                        dtype_text(scale_2), shape_text(scale_2.shape)));
  }

  void check_shape(const Tensor& tensor, const std::vector<std::uint64_t>& expected) const {
    if (tensor.shape != expected)
      throw refuse(tensor, fmt::format("has shape {}; {} was expected for {} experts with hidden_size {} and "
                                       "moe_intermediate_size {} (config.json), in blocks of {} x {}",
                                       shape_text(tensor.shape), shape_text(expected), name(model_.family),
                                       model_.geometry.hidden, model_.geometry.intermediate,
                                       model_.block_rows, model_.block_cols));
  }

  const Checkpoint& checkpoint_;
  const std::string config_path_;
  Model model_;
  ExpertSpelling spelling_;
  std::vector<Found> found_;        // tensors of routed experts of main layers
  std::set<std::uint64_t> sparse_;  // indices of sparse layers
  bool strange_in_main_ = false;
};

}  // namespace

std::string_view name(Family family) {
  return family == Family::mxfp4 ? "MXFP4" : family == Family::fp8 ? "FP8 block" : "NVFP4";
}

const SparseLayer* Model::find_layer(std::uint64_t index) const {
  const auto layer =
      std::lower_bound(layers.begin(), layers.end(), index,
                       [](const SparseLayer& each, std::uint64_t wanted) { return each.index < wanted; });
  return layer != layers.end() && layer->index == index ? &*layer : nullptr;
}

format::Geometry config_geometry(const Json& config, const std::string& path) {
  Geometry geometry;
  geometry.layers = config_number(config, {"num_hidden_layers"}, kMostLayers, path);
  geometry.experts =
      config_number(config, {"n_routed_experts", "num_experts", "num_local_experts"}, kMostExperts, path);
  geometry.hidden = config_number(config, {"hidden_size"}, kMostColumns, path);
  geometry.intermediate = config_number(config, {"moe_intermediate_size"}, kMostColumns, path);
  return geometry;
}

std::optional<std::uint64_t> first_sparse_layer(const Json& config) {
  const Json& first = config_value(config, "first_k_dense_replace");
  const Json& step = config_value(config, "moe_layer_freq");
  if (!first.is_number_unsigned() || !(step.is_null() || step == 1)) return std::nullopt;
  return first.get<std::uint64_t>();
}

Model find_experts(const Checkpoint& checkpoint, std::uint64_t drafts) {
  return Finder(checkpoint, drafts).run();
}

float read_scalar(const File& shard, const Tensor& tensor) {
  std::array<std::uint8_t, 4> bytes{};
  shard.read(bytes, tensor.offset);
  const float value = std::bit_cast<float>(bytes[0] | std::uint32_t{bytes[1]} << 8 |
                                           std::uint32_t{bytes[2]} << 16 | std::uint32_t{bytes[3]} << 24);
  if (!std::isfinite(value))
    throw Error(shard.path(), fmt::format("element 0 is {}; a finite scale was expected", value))
        .in_tensor(tensor.name)
        .at(tensor.offset);
  return value;
}

}  // namespace planesmith
