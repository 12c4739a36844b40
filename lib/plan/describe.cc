#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "base/size.h"
#include "plan/plan.h"

namespace planesmith {
namespace {

std::vector<std::uint64_t> sorted_indices(const Plan& plan) {
  std::vector<std::uint64_t> out;
  for (const SparseLayer* layer : plan.layers) out.push_back(layer->index);
  std::sort(out.begin(), out.end());
  return out;
}

// {0, 1, 2, 7} -> "0-2,7"
std::string ranges(const std::vector<std::uint64_t>& sorted) {
  std::string out;
  for (std::size_t i = 0; i < sorted.size();) {
    std::size_t j = i;
    while (j + 1 < sorted.size() && sorted[j + 1] == sorted[j] + 1) ++j;
    if (!out.empty()) out += ',';
    out += i == j ? fmt::format("{}", sorted[i]) : fmt::format("{}-{}", sorted[i], sorted[j]);
    i = j + 1;
  }
  return out;
}

}  // namespace

std::string describe(const Plan& plan, const Model& model, std::uint64_t peak_memory) {
  const format::Geometry& g = plan.geometry;
  std::string out = fmt::format(
      "model        {} experts, L={} E={} H={} I={}, {} sparse layers\n"
      "converted    {} layers ({}), {} expert weight tensors, {} read\n"
      "ranks        {} of world {}, w13 {} x {}, w2 {} x {} each\n",
      name(model.family), g.layers, g.experts, g.hidden, g.intermediate, model.layers.size(), plan.layers.size(),
      ranges(sorted_indices(plan)), plan.layers.size() * g.experts * kProjections, exact_size(plan.read),
      fmt::join(plan.ranks, ","), plan.shape.world, plan.shape.n13, plan.shape.k13, plan.shape.n2, plan.shape.k2);
  for (const auto& [kind, left] : model.left_alone)
    out += fmt::format("left alone   {}: {} tensors, {}\n", kind, left.tensors, short_size(left.bytes));
  for (const Plan::Written& w : plan.written) {
    out += fmt::format("written      {}: {} files, {}", w.what, w.files, exact_size(w.allocated));
    if (w.apparent != w.allocated) out += fmt::format(", {} with holes", short_size(w.apparent));
    out += fmt::format("; {}\n", w.purpose);
  }
  out += fmt::format("in total     {} written\npeak memory  {}\n", exact_size(plan.allocated()), short_size(peak_memory));
  return out;
}

Json plan_json(const Plan& plan, const Model& model, std::uint64_t peak_memory) {
  const format::Geometry& g = plan.geometry;
  Json left = Json::object(), written = Json::array();
  for (const auto& [kind, l] : model.left_alone) left[kind] = {{"tensors", l.tensors}, {"bytes", l.bytes}};
  for (const Plan::Written& w : plan.written)
    written.push_back({{"what", w.what}, {"files", w.files}, {"bytes", w.allocated}, {"apparent_bytes", w.apparent}});
  return {{"family", name(model.family)},
          {"geometry", {{"layers", g.layers}, {"experts", g.experts}, {"hidden", g.hidden}, {"intermediate", g.intermediate}}},
          {"layers", sorted_indices(plan)},
          {"sparse_layers", plan.all_layers},
          {"expert_weight_tensors", plan.layers.size() * g.experts * kProjections},
          {"world", plan.shape.world},
          {"ranks", plan.ranks},
          {"read_bytes", plan.read},
          {"written", written},
          {"written_bytes", plan.allocated()},
          {"left_alone", left},
          {"peak_memory_bytes", peak_memory}};
}

}  // namespace planesmith
