#include "fidelity/analyze_floats.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/budget.h"
#include "base/error.h"
#include "base/parallel.h"
#include "fidelity/requantize.h"
#include "format/geometry.h"
#include "manifest/profile.h"
#include "rewrite/float_experts.h"

namespace planesmith {
namespace {

using Matrices = std::array<FloatMatrix, kProjections>;

FloatCost cost(const ErrorSums& errors, const ErrorSums& weights) {
  const double squares = ErrorSums::total(weights.squares);
  if (squares == 0) return {};
  return {ErrorSums::total(errors.sum) / ErrorSums::total(weights.sum),
          std::sqrt(ErrorSums::total(errors.squares) / squares)};
}

// Buffers for one matrix.
class Bench {
 public:
  Bench(const Context& context, const Checkpoint& checkpoint, const Kernels& kernels)
      : context_(context), checkpoint_(checkpoint), kernels_(kernels) {}

  // Bytes for a matrix of so many weights.
  static std::uint64_t bytes(std::uint64_t weights, FloatType type) {
    return weights * bytes_of(type) + weights / 2 + weights / kNvfp4Group + weights / 2;
  }

  void judge_expert(const Matrices& expert, TensorFidelity* tensors) {
    // Gate and up share their global scale.
    const float gate_up = std::max(largest(expert[0]), largest(expert[1]));
    std::array<ZeroCount, kProjections> zeros;
    std::array<ZeroModes, kProjections> modes;
    std::array<FloatErrors, kProjections> errors;
    for (std::size_t p = 0; p < kProjections; ++p) {
      const float amax = p == static_cast<std::size_t>(Projection::w2) ? largest(expert[p]) : gate_up;
      quantize(expert[p], nvfp4_scale_2(amax), modes[p], zeros[p], errors[p]);
    }
    choose_modes(zeros, modes);
    for (std::size_t p = 0; p < kProjections; ++p) {
      tensors[p].name = expert[p].module + ".weight";
      tensors[p].zero_modes = modes[p];
      tensors[p].costs = {
          cost(errors[p].nvfp4, errors[p].weights),
          cost(modes[p].automatic_is_alt ? errors[p].alternated : errors[p].kept, errors[p].weights)};
      judge(tensors[p]);
    }
  }

 private:
  FloatValues read(const FloatMatrix& matrix) {
    context_.check_stop();
    const std::uint64_t count = matrix.rows * matrix.cols;
    room_.resize(bytes(count, matrix.type));
    const Bytes to = Bytes(room_).first(count * bytes_of(matrix.type));
    File::open_read(context_.os, checkpoint_.shard_path(*matrix.tensor))
        .read(to, matrix.tensor->offset + matrix.offset);
    context_.progress.advance(to.size());
    return {to.data(), matrix.type, count};
  }

  float largest(const FloatMatrix& matrix) {
    const FloatValues values = read(matrix);
    const float most = kernels_.max_magnitude(values);
    if (!std::isfinite(most)) refuse_nonfinite(checkpoint_, matrix, values, 0);
    return most;
  }

  void quantize(const FloatMatrix& matrix, float scale_2, ZeroModes& modes, ZeroCount& zeros,
                FloatErrors& errors) {
    const FloatValues values = read(matrix);
    std::uint8_t* const nibbles = room_.data() + values.count * bytes_of(matrix.type);
    std::uint8_t* const scales = nibbles + values.count / 2;
    kernels_.to_nvfp4(values, scale_2, nibbles, scales);
    kernels_.add_errors(values, nibbles, scales, scale_2, errors);
    const Nvfp4Slice slice{
        matrix.rows, matrix.cols, nibbles, matrix.cols / 2, scales, matrix.cols / kNvfp4Group, scale_2};
    const Bytes plane = Bytes(room_).last(values.count / 2);
    requantize(kernels_, slice, plane, modes, zeros);
  }

  const Context& context_;
  const Checkpoint& checkpoint_;
  const Kernels& kernels_;
  std::vector<std::uint8_t> room_;
};

std::vector<const FloatExperts::Layer*> choose_layers(const FloatExperts& experts,
                                                      const AnalyzeOptions& options) {
  std::vector<const FloatExperts::Layer*> chosen;
  for (const FloatExperts::Layer& layer : experts.layers) chosen.push_back(&layer);
  if (!options.layers) return chosen;
  const auto all = std::move(chosen);
  chosen.clear();
  for (const std::uint64_t index : *options.layers) {
    const auto at =
        std::find_if(all.begin(), all.end(), [&](const auto* layer) { return layer->index == index; });
    if (at == all.end())
      throw Error(ErrorCode::usage, options.source, fmt::format("layer {} has no routed experts", index));
    chosen.push_back(*at);
  }
  return chosen;
}

}  // namespace

Fidelity analyze_floats(const Context& context, const Checkpoint& checkpoint, const AnalyzeOptions& options,
                        const Kernels& kernels) {
  const FloatExperts found = find_float_experts(checkpoint);
  say_profile(context, found.geometry);
  format::rank_shape(found.geometry, 1);  // refuses what no plane can hold
  const auto chosen = choose_layers(found, options);
  const std::uint64_t weights = found.geometry.hidden * found.geometry.intermediate;
  const Tensor& first = *found.tensors.front();
  const std::uint64_t each = Bench::bytes(weights, FloatType::f32);
  const int workers = workers_within(context.memory, 0, each, context.threads);
  std::vector<Bench> benches(static_cast<std::size_t>(workers), Bench(context, checkpoint, kernels));

  Fidelity fidelity{Family::nvfp4, found.geometry, {}, std::string(name(first.dtype))};
  const std::uint64_t experts = found.geometry.experts;
  fidelity.tensors.resize(chosen.size() * experts * kProjections);
  context.progress.begin(
      "analyze", 2 * chosen.size() * experts * kProjections * weights * bytes_of(*float_type(first.dtype)));
  parallel_for(chosen.size() * experts, workers, [&](std::size_t i, int worker) {
    const FloatExperts::Layer& layer = *chosen[i / experts];
    TensorFidelity* const tensors = &fidelity.tensors[i * kProjections];
    for (std::size_t p = 0; p < kProjections; ++p) {
      tensors[p].layer = layer.index;
      tensors[p].expert = i % experts;
      tensors[p].projection = static_cast<Projection>(p);
    }
    benches[static_cast<std::size_t>(worker)].judge_expert(layer.experts[i % experts], tensors);
  });
  context.progress.end();
  checkpoint.refuse_changed(context.os);
  return fidelity;
}

}  // namespace planesmith
