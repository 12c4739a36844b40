#include "plan/describe.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "base/size.h"

namespace planesmith {
namespace {

std::vector<std::uint64_t> sorted_indices(const Plan& plan) {
  std::vector<std::uint64_t> out;
  for (const SparseLayer* layer : plan.layers) out.push_back(layer->index);
  std::sort(out.begin(), out.end());
  return out;
}

}  // namespace

Plan::Written written_packs(const format::PackSpec& spec, std::uint64_t ranks, std::uint64_t layers) {
  return {fmt::format("{} pack", name(spec.tier)), std::string(purpose(spec.tier)), 4 * ranks,
          ranks * spec.file_bytes(), ranks * layers * spec.experts * spec.stride};
}

std::string number_list(const std::vector<std::uint64_t>& sorted, std::string_view separator) {
  std::string text;
  for (std::size_t i = 0, j = 0; i < sorted.size(); i = j) {
    for (j = i + 1; j < sorted.size() && sorted[j] == sorted[j - 1] + 1;) ++j;
    text += fmt::format("{}{}", text.empty() ? "" : separator, sorted[i]);
    if (j - i > 1) text += fmt::format("-{}", sorted[j - 1]);
  }
  return text;
}

std::string describe(const Plan::Written& written) {
  std::string out =
      fmt::format("{}: {} files, {}", written.what, written.files, exact_size(written.allocated));
  if (written.apparent != written.allocated)
    out += fmt::format(", {} with holes", short_size(written.apparent));
  return out + "; " + written.purpose;
}

Json to_json(const Plan::Written& written) {
  return {{"what", written.what},
          {"files", written.files},
          {"bytes", written.allocated},
          {"apparent_bytes", written.apparent},
          {"purpose", written.purpose}};
}

std::string describe(const Plan& plan, const Model& model, std::uint64_t peak_memory) {
  const format::Geometry& g = plan.geometry;
  std::string out = fmt::format(
      "model        {} experts, L={} E={} H={} I={}, {} sparse layers\n"
      "converted    {} layers ({}), {} expert weight tensors, {} read\n"
      "ranks        {} of world {}, w13 {} x {}, w2 {} x {} each\n",
      name(model.family), g.layers, g.experts, g.hidden, g.intermediate, model.layers.size(),
      plan.layers.size(), number_list(sorted_indices(plan), ","),
      plan.layers.size() * g.experts * kProjections, exact_size(plan.read), fmt::join(plan.ranks, ","),
      plan.shape.world, plan.shape.n13, plan.shape.k13, plan.shape.n2, plan.shape.k2);
  if (model.draft_blocks != 0)
    out += fmt::format(
        "drafters     {} of {} DSpark blocks taken{}\n", g.drafts, model.draft_blocks,
        g.drafts == model.draft_blocks ? "" : fmt::format("; --drafts {} takes all", model.draft_blocks));
  if (plan.request.mode)
    out += fmt::format("mode         {}: {}\n", format::name(*plan.request.mode),
                       format::summary(*plan.request.mode));
  for (const auto& [kind, left] : model.left_alone)
    out += fmt::format("left alone   {}: {} tensors, {}\n", kind, left.tensors, short_size(left.bytes));
  for (const Plan::Written& written : plan.written)
    out += fmt::format("written      {}\n", describe(written));
  out += fmt::format("in total     {} written\npeak memory  {}\n", exact_size(plan.allocated()),
                     short_size(peak_memory));
  return out;
}

Json plan_json(const Plan& plan, const Model& model, std::uint64_t peak_memory) {
  const format::Geometry& g = plan.geometry;
  Json left = Json::object(), written = Json::array();
  for (const auto& [kind, l] : model.left_alone) left[kind] = {{"tensors", l.tensors}, {"bytes", l.bytes}};
  for (const Plan::Written& w : plan.written) written.push_back(to_json(w));
  Json out = {{"family", name(model.family)},
              {"geometry",
               {{"layers", g.layers},
                {"experts", g.experts},
                {"hidden", g.hidden},
                {"intermediate", g.intermediate}}},
              {"layers", sorted_indices(plan)},
              {"sparse_layers", plan.all_layers},
              {"drafts", g.drafts},
              {"draft_blocks", model.draft_blocks},
              {"expert_weight_tensors", plan.layers.size() * g.experts * kProjections},
              {"world", plan.shape.world},
              {"ranks", plan.ranks},
              {"read_bytes", plan.read},
              {"written", written},
              {"written_bytes", plan.allocated()},
              {"left_alone", left},
              {"peak_memory_bytes", peak_memory}};
  if (plan.request.mode) out["mode"] = format::name(*plan.request.mode);
  return out;
}

}  // namespace planesmith
