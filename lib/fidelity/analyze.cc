#include "fidelity/analyze.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/budget.h"
#include "base/error.h"
#include "base/parallel.h"
#include "checkpoint/layout.h"
#include "fidelity/analyze_floats.h"
#include "fidelity/requantize.h"
#include "manifest/profile.h"
#include "pipeline/expert_source.h"

namespace planesmith {
namespace {

std::vector<const SparseLayer*> choose_layers(const Model& model, const AnalyzeOptions& options) {
  std::vector<const SparseLayer*> chosen;
  if (!options.layers)
    for (const SparseLayer& layer : model.layers) chosen.push_back(&layer);
  else
    for (const std::uint64_t index : *options.layers) {
      chosen.push_back(model.find_layer(index));
      if (chosen.back() == nullptr)
        throw Error(ErrorCode::usage, options.source, fmt::format("layer {} has no routed experts", index));
    }
  return chosen;
}

}  // namespace

Fidelity analyze(const Context& context, const AnalyzeOptions& options, const Kernels& kernels) {
  const Checkpoint checkpoint = Checkpoint::open(context, options.source);
  if (judge_layout(checkpoint).lead == Lead::quantize)
    return analyze_floats(context, checkpoint, options, kernels);
  const Model model = find_experts(checkpoint);
  say_profile(context, model.geometry);
  const std::vector<const SparseLayer*> chosen = choose_layers(model, options);
  const ExpertSource source(context, checkpoint, model, format::rank_shape(model.geometry, 1), 0, 1);
  const bool as_they_stand = !traits(model.family).requantized;

  const std::uint64_t plane = as_they_stand ? 0 : model.geometry.hidden * model.geometry.intermediate / 2;
  const std::uint64_t each = source.buffer_bytes() + plane;
  const int workers = workers_within(context.memory, 0, each, context.threads);
  std::vector<std::vector<std::uint8_t>> buffers(static_cast<std::size_t>(workers));

  Fidelity fidelity{model.family, model.geometry, {}, {}};
  const std::uint64_t experts = model.geometry.experts;
  fidelity.tensors.resize(chosen.size() * experts * kProjections);
  context.progress.begin("analyze", chosen.size() * experts * source.buffer_bytes());
  parallel_for(chosen.size() * experts, workers, [&](std::size_t i, int worker) {
    context.check_stop();
    const SparseLayer& layer = *chosen[i / experts];
    const Expert& expert = layer.experts[i % experts];
    std::vector<std::uint8_t>& buffer = buffers[static_cast<std::size_t>(worker)];
    buffer.resize(each);
    const Bytes all = buffer;
    const auto loaded = source.load(expert, all.first(source.buffer_bytes()));
    const ExpertSlices slices = source.slices(loaded, 0);

    std::array<ZeroModes, kProjections> modes;
    std::array<ZeroCount, kProjections> zeros;
    for (std::size_t p = 0; !as_they_stand && p < kProjections; ++p)
      if (!requantize(kernels, slices[p], all.subspan(source.buffer_bytes()), modes[p], zeros[p]))
        source.refuse(expert, 0, {static_cast<Projection>(p), find_nonfinite(slices[p])});
    choose_modes(zeros, modes);
    for (std::size_t p = 0; p < kProjections; ++p) {
      TensorFidelity& tensor = fidelity.tensors[i * kProjections + p];
      tensor.name = expert[p].weight->name;
      tensor.layer = layer.index;
      tensor.expert = i % experts;
      tensor.projection = static_cast<Projection>(p);
      if (const auto* slice = std::get_if<Mxfp4Slice>(&slices[p]))
        kernels.histogram(slice->weight, expert[p].weight->size, tensor.counts.data());
      else
        tensor.zero_modes = modes[p];
      judge(tensor);
    }
    context.progress.advance(source.buffer_bytes());
  });
  context.progress.end();
  checkpoint.refuse_changed(context.os);
  return fidelity;
}

}  // namespace planesmith
