#include "fidelity/analyze.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/budget.h"
#include "base/error.h"
#include "base/parallel.h"
#include "manifest/profile.h"
#include "pipeline/expert_source.h"

namespace planesmith {
namespace {

using Modes = TensorFidelity::ZeroModes;

// One expert: what each projection's nibbles are under either treatment of zeros.
class Requantizer {
 public:
  Requantizer(const Kernels& kernels, Bytes nibbles) : kernels_(kernels), nibbles_(nibbles) {}

  // The first element that is not finite, where there is one.
  std::optional<BadElement> operator()(const ExpertSlices& expert, std::array<Modes, kProjections>& modes) {
    std::array<ZeroCount, kProjections> zeros;
    for (std::size_t p = 0; p < kProjections; ++p) {
      if (!convert(expert[p], ZeroSigns::keep, modes[p].sign, &zeros[p]) ||
          !convert(expert[p], ZeroSigns::alternate, modes[p].alt, nullptr))
        return BadElement{static_cast<Projection>(p),
                          std::visit([](const auto& s) { return find_nonfinite(s); }, expert[p])};
    }
    // w1 and w3 are one unit.
    ZeroCount first = zeros[static_cast<std::size_t>(Projection::w1)];
    first += zeros[static_cast<std::size_t>(Projection::w3)];
    for (const Projection p : {Projection::w1, Projection::w3})
      modes[static_cast<std::size_t>(p)].automatic_is_alt = one_signed(first);
    const auto w2 = static_cast<std::size_t>(Projection::w2);
    modes[w2].automatic_is_alt = one_signed(zeros[w2]);
    return std::nullopt;
  }

 private:
  bool convert(const Slice& slice, ZeroSigns signs, Counts& counts, ZeroCount* zeros) {
    PlaneTarget target;
    target.nibbles = nibbles_.data();
    counts = {};
    if (!convert_slice(kernels_, slice, signs, target, zeros)) return false;
    return std::visit([&](const auto& s) { return count(s.rows * s.cols / 2, counts); }, slice);
  }
  // A histogram does not mind that the plane is in another order than the tensor.
  bool count(std::uint64_t bytes, Counts& counts) {
    kernels_.histogram(nibbles_.data(), bytes, counts.data());
    return true;
  }

  const Kernels& kernels_;
  Bytes nibbles_;
};

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
  const Model model = find_experts(checkpoint);
  say_profile(context, model.geometry);
  const std::vector<const SparseLayer*> chosen = choose_layers(model, options);
  const ExpertSource source(context, checkpoint, model, format::rank_shape(model.geometry, 1), 0, 1);
  const bool as_they_stand = !traits(model.family).requantized;

  const std::uint64_t plane = as_they_stand ? 0 : model.geometry.hidden * model.geometry.intermediate / 2;
  const std::uint64_t each = source.buffer_bytes() + plane;
  const int workers = workers_within(context.memory, 0, each, context.threads);
  std::vector<std::vector<std::uint8_t>> buffers(static_cast<std::size_t>(workers));

  Fidelity fidelity{model.family, model.geometry, {}};
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

    std::array<Modes, kProjections> modes;
    if (!as_they_stand)
      if (const auto bad = Requantizer(kernels, all.subspan(source.buffer_bytes()))(slices, modes))
        source.refuse(expert, 0, *bad);
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
  return fidelity;
}

}  // namespace planesmith
