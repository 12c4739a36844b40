#include "plan/plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <tuple>

#include "base/error.h"
#include "plan/describe.h"

namespace planesmith {
namespace {

using format::Section;

[[noreturn]] void refuse(std::string reason) {
  throw Error(ErrorCode::usage, "", std::move(reason));
}

// Shard and offset of the layer's first expert weight.
std::tuple<std::uint32_t, std::uint64_t> position(const SparseLayer& layer) {
  std::tuple<std::uint32_t, std::uint64_t> first{UINT32_MAX, UINT64_MAX};
  for (const Expert& expert : layer.experts)
    for (const ExpertTensors& tensors : expert)
      first = std::min(first, std::tuple(tensors.weight->shard, tensors.weight->offset));
  return first;
}

std::vector<const SparseLayer*> chosen_layers(const Model& model, const PlanRequest& request) {
  std::vector<const SparseLayer*> out;
  if (request.layers) {
    for (const std::uint64_t index : *request.layers) {
      const SparseLayer* layer = model.find_layer(index);
      if (layer == nullptr)
        refuse(fmt::format("layer {} has no routed experts; the layers that have are {} to {}", index,
                           model.layers.front().index, model.layers.back().index));
      out.push_back(layer);
    }
  } else {
    for (const SparseLayer& layer : model.layers) out.push_back(&layer);
  }
  std::sort(out.begin(), out.end(),
            [](const SparseLayer* a, const SparseLayer* b) { return position(*a) < position(*b); });
  return out;
}

void check_scale_blocks(const Model& model, const format::RankShape& shape) {
  if (shape.slice % model.block_rows != 0 || shape.slice % model.block_cols != 0)
    refuse(
        fmt::format("a rank's slice of {} does not divide into scale blocks of {} x {}; use a smaller world",
                    shape.slice, model.block_rows, model.block_cols));
}

}  // namespace

std::uint64_t expert_bytes(const Expert& expert) {
  std::uint64_t bytes = 0;
  for (const ExpertTensors& tensors : expert)
    for (const Tensor* tensor : {tensors.weight, tensors.scale, tensors.scale_2})
      if (tensor != nullptr) bytes += tensor->size;
  return bytes;
}

std::uint64_t Plan::allocated() const {
  std::uint64_t bytes = 0;
  for (const Written& w : written) bytes += w.allocated;
  return bytes;
}

bool serves_split(const PlanRequest& request) {
  if (request.mode) return format::switches(*request.mode).split;
  return request.cache == format::Fp4Tier::quintal;
}

Plan make_plan(const Model& model, const PlanRequest& request) {
  Plan plan;
  plan.request = request;
  plan.family = model.family;
  plan.geometry = model.geometry;
  plan.shape = format::rank_shape(model.geometry, request.world);
  check_scale_blocks(model, plan.shape);
  if (!request.cache && request.tiers.empty())
    refuse("nothing to build: neither a planes cache nor a pack was asked for");
  if (request.rank && *request.rank >= request.world)
    refuse(fmt::format("rank {} is outside a world of {} (0 to {})", *request.rank, request.world,
                       request.world - 1));
  for (std::uint64_t rank = 0; rank < request.world; ++rank)
    if (!request.rank || *request.rank == rank) plan.ranks.push_back(rank);
  plan.layers = chosen_layers(model, request);
  for (const SparseLayer& layer : model.layers) plan.all_layers.push_back(layer.index);

  for (const SparseLayer* layer : plan.layers)
    for (const Expert& expert : layer->experts) plan.read += expert_bytes(expert);
  const std::uint64_t ranks = plan.ranks.size(), layers = plan.layers.size(), experts = plan.geometry.experts;

  if (request.cache) {
    Plan::Written w{"planes cache", format::cache_use(request.mode, traits(model.family).has_cache), 0, 0, 0};
    for (const format::Part& part : format::cache_parts(*request.cache)) {
      plan.sections[static_cast<std::size_t>(part.section)] = true;
      w.files += ranks * layers;
      w.apparent += ranks * layers * experts * format::section_bytes(part.section, plan.shape);
    }
    w.allocated = w.apparent;
    w.files += 2 * ranks;  // meta.json, manifest.json
    plan.written.push_back(std::move(w));
  }
  for (const format::Tier tier : request.tiers) {
    const format::PackSpec spec = format::pack_spec(tier, plan.geometry, plan.shape, "", request.zero_mode);
    for (const Section section : format::slot_sections(tier))
      plan.sections[static_cast<std::size_t>(section)] = true;
    plan.written.push_back(written_packs(spec, ranks, layers));
    plan.written.back().purpose = format::pack_use(request.mode, tier);
  }
  return plan;
}

}  // namespace planesmith
