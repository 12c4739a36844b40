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
#include "checkpoint/layout.h"
#include "checkpoint/tensor_name.h"

namespace planesmith {
namespace {

using format::Geometry;

struct Found {
  std::uint64_t layer = 0, expert = 0;
  Projection projection = Projection::w1;
  Role role = Role::weight;
  const Tensor* tensor = nullptr;

  auto place() const { return std::tie(layer, expert, projection); }
};

std::vector<Role> roles_of(const FamilyTraits& family) {
  if (family.has_scale_2) return {Role::weight, Role::scale, Role::scale_2};
  return {Role::weight, Role::scale};
}

std::uint64_t parts(std::uint64_t n, std::uint64_t size) {
  return (n + size - 1) / size;
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
    refuse_absent_layers();
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

  // A tensor of a routed expert that is converted.
  void take(const TensorName& name, std::uint64_t layer, const Tensor& tensor) {
    if (name.expert >= model_.geometry.experts)
      throw refuse(tensor, fmt::format("is of expert {}, but config.json has {} experts, counted from 0",
                                       name.expert, model_.geometry.experts));
    if (name.role == Role::input_scale) leave("input scales of experts", tensor);
    found_.push_back({layer, name.expert, name.projection, name.role, &tensor});
  }

  void check_prefix(const TensorName& name, const Tensor& tensor) {
    if (first_expert_ == nullptr) {
      first_expert_ = &tensor;
      prefix_ = name.prefix;
    }
    if (name.prefix != prefix_)
      throw refuse(
          tensor,
          fmt::format("is an expert below '{}layers.', but '{}' is below '{}layers.'; all experts must "
                      "have one prefix",
                      name.prefix, first_expert_->name, prefix_));
  }

  // Separates the tensors of routed experts from those that are left alone.
  void sort_out() {
    const Tensor *fused = nullptr, *strange = nullptr;
    std::uint64_t fused_count = 0;
    std::set<std::uint64_t> blocks, beyond;  // of drafters: mtp.N, and layers with a number from L on
    std::vector<TensorName> routers;
    for (const Tensor& tensor : checkpoint_.tensors()) {
      const TensorName name = parse_tensor_name(tensor.name, model_.geometry.layers, tensor.shape.size());
      if (name.main_layer) present_.insert(name.layer);
      switch (name.kind) {
        case TensorName::Kind::expert:
          check_prefix(name, tensor);
          sparse_.insert(name.layer);
          spelling_.learn(name);
          take(name, name.layer, tensor);
          break;
        case TensorName::Kind::draft_expert:
          blocks.insert(name.layer);
          if (name.layer < model_.geometry.drafts)
            take(name, model_.geometry.layers + name.layer, tensor);
          else
            leave(name.left_as, tensor);
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
          if (name.main_layer && name.left_as == "router") routers.push_back(name);
          if (name.beyond) beyond.insert(name.layer);
          leave(name.left_as, tensor);
      }
    }
    for (const TensorName& router : routers)
      if (router.prefix == prefix_ || found_.empty()) sparse_.insert(router.layer);
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
          fmt::format(
              "{} drafter blocks were asked for, {} are there (mtp.0, mtp.1, ... with routed experts)",
              model_.geometry.drafts, model_.draft_blocks));
    doubt(beyond, blocks.size());
    for (std::uint64_t draft = 0; draft < model_.geometry.drafts; ++draft)
      sparse_.insert(model_.geometry.layers + draft);
    if (const auto first = first_sparse_layer(checkpoint_.config()))
      for (std::uint64_t layer = *first; layer < model_.geometry.layers; ++layer) sparse_.insert(layer);
    std::sort(found_.begin(), found_.end(), [](const Found& a, const Found& b) {
      return std::tuple_cat(a.place(), std::tie(a.role, a.tensor)) <
             std::tuple_cat(b.place(), std::tie(b.role, b.tensor));
    });
  }

  // Too small a num_hidden_layers makes packs for too few layers.
  void doubt(const std::set<std::uint64_t>& beyond, std::uint64_t blocks) {
    const Json& value = config_value(checkpoint_.config(), "num_nextn_predict_layers");
    const std::uint64_t claimed = value.is_number_unsigned() ? value.get<std::uint64_t>() : 0;
    if (beyond.empty() || beyond.size() + blocks <= claimed) return;
    model_.doubt = fmt::format(
        "{}: has \"num_hidden_layers\": {} and \"num_nextn_predict_layers\": {}, but the shards also hold "
        "layers from {} on ({} in all); they are taken for drafters and left alone",
        config_path_, model_.geometry.layers, value.is_null() ? "(not given)" : value.dump(), *beyond.begin(),
        beyond.size() + blocks);
  }

  // Calls work(first, tensors) for each projection that has at least one tensor, in order.
  template <typename Work>
  void for_each_projection(Work work) const {
    for (auto from = found_.begin(); from != found_.end();) {
      ProjectionTensors tensors;
      auto to = from;
      for (; to != found_.end() && to->place() == from->place(); ++to) {
        const Tensor*& slot = tensors.of[static_cast<std::size_t>(to->role)];
        if (slot != nullptr)
          throw refuse(*to->tensor, fmt::format("means the same as tensor '{}'", slot->name));
        slot = to->tensor;
      }
      work(*from, tensors);
      from = to;
    }
  }

  // One family for all, and no tensor that the family does not know.
  void choose_family() {
    const Tensor* decided_by = nullptr;
    for_each_projection([&](const Found&, const ProjectionTensors& tensors) {
      if (decided_by != nullptr) return;
      if (const std::optional<Family> family = family_of(tensors)) {
        decided_by = tensors[Role::weight];
        family_ = &traits(*family);
      }
    });
    for_each_projection([&](const Found&, const ProjectionTensors& tensors) {
      const Tensor* weight = tensors[Role::weight];
      if (weight == nullptr) return;
      const std::optional<Family> family = family_of(tensors);
      if (!family && (decided_by == nullptr || !is_one_of(weight->dtype, family_->weights)))
        refuse_unserved(tensors);
      if (family && *family != family_->family)
        throw refuse(*weight, fmt::format("is {}, but '{}' is {}; all experts must be of one family",
                                          name(*family), decided_by->name, family_->name));
    });
    model_.family = family_->family;
    const std::vector<Role> known = roles_of(*family_);
    for (const Found& found : found_)
      if (found.role != Role::input_scale && std::find(known.begin(), known.end(), found.role) == known.end())
        throw refuse(*found.tensor, fmt::format("has no meaning for {} experts", family_->name));
  }

  void refuse_unserved(const ProjectionTensors& tensors) const {
    const Unserved unserved = unserved_layout(tensors);
    if (!unserved.what.empty())
      throw refuse(*tensors[unserved.of_scale ? Role::scale : Role::weight], unserved.what);
  }

  // There must be sparse layers x experts x 3 tensors, of weights and of every kind of scale.
  void refuse_missing() const {
    const std::vector<Role> roles = roles_of(*family_);
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

  // config.json may name more layers than the shards hold.
  void refuse_absent_layers() const {
    std::vector<std::uint64_t> absent;
    for (std::uint64_t layer = 0; layer < model_.geometry.layers; ++layer)
      if (!present_.contains(layer)) absent.push_back(layer);
    if (!absent.empty())
      throw Error(config_path_,
                  fmt::format("has \"num_hidden_layers\": {}, but the shards hold no tensor of {} of "
                              "these layers, the first of them layer {}",
                              model_.geometry.layers, absent.size(), absent.front()));
  }

  // Checks each tensor and puts it in its place; each place is taken once.
  void fill() {
    take_block_shape();
    for (const std::uint64_t layer : sparse_)
      model_.layers.push_back({layer, model_.layers.size(), std::vector<Expert>(model_.geometry.experts)});
    auto layer = model_.layers.begin();
    for_each_projection([&](const Found& found, const ProjectionTensors& tensors) {
      while (layer->index != found.layer) ++layer;
      check(tensors, found.projection);
      layer->experts[found.expert][static_cast<std::size_t>(found.projection)] = {
          tensors[Role::weight], tensors[Role::scale], tensors[Role::scale_2]};
    });
  }

  // How many weights share a scale, and of which type scales are.
  void take_block_shape() {
    const auto of_role = [&](Role role) {
      return std::find_if(found_.begin(), found_.end(), [&](const Found& f) { return f.role == role; })
          ->tensor;
    };
    const Tensor& scale = *of_role(Role::scale);
    const auto type = is_one_of(scale.dtype, family_->scales) ? scale_type(scale.dtype) : std::nullopt;
    model_.scale_type = type.value_or(scale_type(family_->scales.front()).value());
    model_.block_rows = family_->block_rows;
    model_.block_cols = family_->block_cols;
    if (model_.block_rows != 0) return;
    const std::optional<ScaleBlock> block = weight_block_size(checkpoint_.config(), config_path_);
    if (!block) {
      for_each_projection([&](const Found&, const ProjectionTensors& tensors) { refuse_unserved(tensors); });
      throw Error(config_path_,
                  fmt::format("lacks \"quantization_config\": {{\"weight_block_size\"}}, which {} "
                              "weights need; add it as the source has it, usually [{}, {}]",
                              family_->name, kFp8Block, kFp8Block));
    }
    model_.block_rows = block->rows;
    model_.block_cols = block->cols;
  }

  void check(const ProjectionTensors& tensors, Projection projection) const {
    const Geometry& g = model_.geometry;
    const std::uint64_t rows = projection == Projection::w2 ? g.hidden : g.intermediate;
    const std::uint64_t cols = projection == Projection::w2 ? g.intermediate : g.hidden;
    const Tensor &weight = *tensors[Role::weight], &scale = *tensors[Role::scale];
    check_shape(weight, weight_shape(*family_, weight.dtype, rows, cols));

    if (!is_one_of(scale.dtype, family_->scales) || scale_type(scale.dtype) != model_.scale_type) {
      std::vector<Dtype> wanted;
      for (const Dtype dtype : family_->scales)
        if (scale_type(dtype) == model_.scale_type) wanted.push_back(dtype);
      throw refuse(scale, fmt::format("has dtype {}; {} was expected", dtype_text(scale), names_of(wanted)));
    }
    const std::vector<std::uint64_t> blocks = {parts(rows, model_.block_rows),
                                               parts(cols, model_.block_cols)};
    if (scale.shape != blocks) refuse_unserved(tensors);
    check_shape(scale, blocks);

    if (tensors[Role::scale_2] == nullptr) return;
    const Tensor& scale_2 = *tensors[Role::scale_2];
    if (scale_2.dtype != Dtype::f32 || scale_2.size != 4)
      throw refuse(scale_2, fmt::format("is {} of shape {}; one F32 was expected{}", dtype_text(scale_2),
                                        shape_text(scale_2.shape),
                                        scale_2.dtype == Dtype::bf16 || scale_2.dtype == Dtype::f16
                                            ? " (repack-experts translate SOURCE TARGET widens it)"
                                            : ""));
  }

  void check_shape(const Tensor& tensor, const std::vector<std::uint64_t>& expected) const {
    if (tensor.shape != expected)
      throw refuse(tensor, fmt::format("has shape {}; {} was expected for {} experts with hidden_size {} and "
                                       "moe_intermediate_size {} (config.json), in blocks of {} x {}",
                                       shape_text(tensor.shape), shape_text(expected), family_->name,
                                       model_.geometry.hidden, model_.geometry.intermediate,
                                       model_.block_rows, model_.block_cols));
  }

  const Checkpoint& checkpoint_;
  const std::string config_path_;
  Model model_;
  ExpertSpelling spelling_;
  const FamilyTraits* family_ = &families().front();
  std::vector<Found> found_;                  // tensors of routed experts that are converted
  std::set<std::uint64_t> sparse_, present_;  // indices of sparse layers, and of layers with any tensor
  const Tensor* first_expert_ = nullptr;
  std::string_view prefix_;  // of all experts
  bool strange_in_main_ = false;
};

}  // namespace

const SparseLayer* Model::find_layer(std::uint64_t index) const {
  const auto layer =
      std::lower_bound(layers.begin(), layers.end(), index,
                       [](const SparseLayer& each, std::uint64_t wanted) { return each.index < wanted; });
  return layer != layers.end() && layer->index == index ? &*layer : nullptr;
}

Model find_experts(const Checkpoint& checkpoint, std::uint64_t drafts) {
  if (const LayoutVerdict verdict = judge_layout(checkpoint); verdict.lead != Lead::build)
    throw Error(checkpoint.directory(), verdict.sentence);
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
