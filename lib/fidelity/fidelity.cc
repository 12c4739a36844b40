#include "fidelity/fidelity.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace planesmith {
namespace {

CodebookFit fit_with(Granularity granularity, LevelSet levels, const Counts& counts) {
  return {levels, deviation(counts, map_to(granularity, levels))};
}

double served_bias(const Counts& counts) {
  return fit_with(Granularity::tensor_sym, kCanonicalSet, counts).deviation.bias();
}

std::uint64_t zeros(const Counts& counts) {
  return counts[0] + counts[8];
}

double share(std::uint64_t part, std::uint64_t whole) {
  return whole == 0 ? 0 : static_cast<double>(part) / static_cast<double>(whole);
}

template <class Wanted>
FidelitySummary summarize(const Fidelity& fidelity, Wanted wanted) {
  FidelitySummary sum;
  for (const TensorFidelity& tensor : fidelity.tensors) {
    if (!wanted(tensor)) continue;
    ++sum.tensors;
    sum.canonical += tensor.canonical() ? 1 : 0;
    const auto add = [](const CodebookFit& fit, double& bias, double& abs_bias, double& rms) {
      bias += fit.deviation.bias();
      abs_bias += std::abs(fit.deviation.bias());
      rms += fit.deviation.rms_ratio();
    };
    add(tensor.asymmetric, sum.bias_asymmetric, sum.abs_bias_asymmetric, sum.rms_asymmetric);
    add(tensor.symmetric, sum.bias_symmetric, sum.abs_bias_symmetric, sum.rms_symmetric);
    add(tensor.served, sum.bias_served, sum.abs_bias_served, sum.rms_served);
    if (const auto& modes = tensor.zero_modes) {
      sum.requantized = true;
      sum.abs_bias_sign += std::abs(served_bias(modes->sign));
      sum.abs_bias_alt += std::abs(served_bias(modes->alt));
    }
    if (const auto& costs = tensor.costs) {
      sum.of_floats = true;
      sum.rms_nvfp4 += costs->nvfp4.rms;
      sum.rms_codebook += costs->served.rms;
      sum.abs_bias_nvfp4 += std::abs(costs->nvfp4.bias);
      sum.abs_bias_codebook += std::abs(costs->served.bias);
    }
  }
  if (sum.tensors == 0) return sum;
  for (double* mean : {&sum.bias_asymmetric, &sum.bias_symmetric, &sum.bias_served, &sum.abs_bias_asymmetric,
                       &sum.abs_bias_symmetric, &sum.abs_bias_served, &sum.rms_asymmetric, &sum.rms_symmetric,
                       &sum.rms_served, &sum.abs_bias_sign, &sum.abs_bias_alt, &sum.rms_nvfp4,
                       &sum.rms_codebook, &sum.abs_bias_nvfp4, &sum.abs_bias_codebook})
    *mean /= static_cast<double>(sum.tensors);
  return sum;
}

nlohmann::ordered_json levels_json(LevelSet levels) {
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (int i = 0; i < kGridLevels; ++i)
    if (levels >> i & 1) list.push_back(grid_value(i) / 2.0);
  return list;
}

nlohmann::ordered_json zero_mode_json(const Counts& counts) {
  return {{"bias", served_bias(counts)}, {"zero_pos_frac", share(counts[0], zeros(counts))}};
}

nlohmann::ordered_json tensor_json(const TensorFidelity& tensor) {
  const Deviation &asymmetric = tensor.asymmetric.deviation, &symmetric = tensor.symmetric.deviation,
                  &served = tensor.served.deviation;
  nlohmann::ordered_json json = {{"hist", tensor.counts},
                                 {"levels_asym", levels_json(tensor.asymmetric.levels)},
                                 {"asym_is_sym", is_symmetric(tensor.asymmetric.levels)},
                                 {"bias_asym", asymmetric.bias()},
                                 {"abs_bias_asym", std::abs(asymmetric.bias())},
                                 {"rel_asym", asymmetric.rms_ratio()},
                                 {"levels_sym", levels_json(tensor.symmetric.levels)},
                                 {"bias_sym", symmetric.bias()},
                                 {"abs_bias_sym", std::abs(symmetric.bias())},
                                 {"bias_sym_alt", tensor.bias_without_zeros},
                                 {"rel_sym", symmetric.rms_ratio()},
                                 {"canonical_is_best", tensor.canonical()},
                                 {"bias_served", served.bias()},
                                 {"rel_served", served.rms_ratio()},
                                 {"zero_frac", tensor.zero_share()},
                                 {"zero_pos_frac", tensor.positive_zeros()}};
  if (const auto& modes = tensor.zero_modes) {
    const nlohmann::ordered_json sign = zero_mode_json(modes->sign), alt = zero_mode_json(modes->alt);
    json["zero_modes"] = {{"sign", sign},
                          {"alt", alt},
                          {"auto", modes->automatic_is_alt ? alt : sign},
                          {"auto_is", modes->automatic_is_alt ? "alt" : "sign"}};
  }
  if (const auto& costs = tensor.costs)
    json["against_floats"] = {{"nvfp4", {{"rel", costs->nvfp4.rms}, {"bias", costs->nvfp4.bias}}},
                              {"codebook", {{"rel", costs->served.rms}, {"bias", costs->served.bias}}}};
  return json;
}

nlohmann::ordered_json summary_json(const FidelitySummary& sum) {
  nlohmann::ordered_json json = {{"tensors", sum.tensors},
                                 {"canonical", sum.canonical},
                                 {"mean_bias_asym", sum.bias_asymmetric},
                                 {"mean_bias_sym", sum.bias_symmetric},
                                 {"mean_bias_served", sum.bias_served},
                                 {"mean_abs_bias_asym", sum.abs_bias_asymmetric},
                                 {"mean_abs_bias_sym", sum.abs_bias_symmetric},
                                 {"mean_abs_bias_served", sum.abs_bias_served},
                                 {"mean_rel_asym", sum.rms_asymmetric},
                                 {"mean_rel_sym", sum.rms_symmetric},
                                 {"mean_rel_served", sum.rms_served}};
  if (sum.requantized)
    json["zero_modes"] = {
        {"sign", sum.abs_bias_sign}, {"alt", sum.abs_bias_alt}, {"auto", sum.abs_bias_served}};
  if (sum.of_floats)
    json["against_floats"] = {
        {"nvfp4", {{"mean_rel", sum.rms_nvfp4}, {"mean_abs_bias", sum.abs_bias_nvfp4}}},
        {"codebook", {{"mean_rel", sum.rms_codebook}, {"mean_abs_bias", sum.abs_bias_codebook}}}};
  return json;
}

}  // namespace

double TensorFidelity::zero_share() const {
  return share(zeros(counts), served.deviation.elements);
}
double TensorFidelity::positive_zeros() const {
  return share(counts[0], zeros(counts));
}

void judge(TensorFidelity& tensor) {
  if (const auto& modes = tensor.zero_modes)
    tensor.counts = modes->automatic_is_alt ? modes->alt : modes->sign;
  const Counts& counts = tensor.counts;
  tensor.asymmetric = fit_with(Granularity::tensor, fit_tensor(counts, 4), counts);
  tensor.symmetric = fit_with(Granularity::tensor_sym, fit_symmetric(counts), counts);
  tensor.served = fit_with(Granularity::tensor_sym, kCanonicalSet, counts);
  Deviation without = tensor.symmetric.deviation;
  const NibbleMap map = map_to(Granularity::tensor_sym, tensor.symmetric.levels);
  for (const unsigned zero : {0u, 8u})
    without.error -= static_cast<std::int64_t>(counts[zero]) * format::twice_value(map[zero]);
  tensor.bias_without_zeros = without.bias();
}

FidelitySummary summary(const Fidelity& fidelity) {
  return summarize(fidelity, [](const TensorFidelity&) { return true; });
}
FidelitySummary summary(const Fidelity& fidelity, std::uint64_t layer) {
  return summarize(fidelity, [&](const TensorFidelity& tensor) { return tensor.layer == layer; });
}

std::vector<std::uint64_t> layers(const Fidelity& fidelity) {
  std::vector<std::uint64_t> all;
  for (const TensorFidelity& tensor : fidelity.tensors)
    if (all.empty() || all.back() != tensor.layer) all.push_back(tensor.layer);
  return all;
}

std::vector<const TensorFidelity*> worst(const Fidelity& fidelity, std::size_t most) {
  std::vector<const TensorFidelity*> all;
  for (const TensorFidelity& tensor : fidelity.tensors) all.push_back(&tensor);
  std::stable_sort(all.begin(), all.end(), [](const auto* a, const auto* b) {
    return std::abs(a->served.deviation.bias()) > std::abs(b->served.deviation.bias());
  });
  all.resize(std::min(all.size(), most));
  return all;
}

bool Verdict::holds() const {
  return std::all_of(checks.begin(), checks.end(), [](const Check& check) { return check.holds; });
}

Verdict verdict(const FidelitySummary& model) {
  const double canonical = share(model.canonical, model.tensors);
  return {
      {{fmt::format("mean |bias| of {{-4, -1, 1, 4}} is {:.6f}; it must be below {}", model.abs_bias_served,
                    kMostBias),
        model.abs_bias_served < kMostBias},
       {fmt::format("that is {:.3f} of the asymmetric optimum's {:.6f}; it must be at most {}",
                    model.abs_bias_asymmetric == 0 ? 0 : model.abs_bias_served / model.abs_bias_asymmetric,
                    model.abs_bias_asymmetric, kMostBiasShare),
        model.abs_bias_served <= kMostBiasShare * model.abs_bias_asymmetric},
       {fmt::format("{{-4, -1, 1, 4}} is the best symmetric set of {} in {} tensors ({:.2f} %); it must be "
                    "in over {:.0f} %",
                    model.canonical, model.tensors, 100 * canonical, 100 * kLeastCanonical),
        canonical > kLeastCanonical},
       {fmt::format(
            "mean relative RMS is {:.4f} against the optimum's {:.4f}; it must be at most {:.0f} % above",
            model.rms_served, model.rms_asymmetric, 100 * (kMostRms - 1)),
        model.rms_served <= kMostRms * model.rms_asymmetric}}};
}

nlohmann::ordered_json to_json(const Fidelity& fidelity) {
  const FidelitySummary model = summary(fidelity);
  const Verdict result = verdict(model);
  nlohmann::ordered_json json = {{"family", name(fidelity.family)}};
  if (!fidelity.source.empty()) json["source"] = fidelity.source;
  json["verdict"] = {{"holds", result.holds()}};
  for (const Verdict::Check& check : result.checks)
    json["verdict"]["checks"].push_back({{"holds", check.holds}, {"text", check.text}});
  json["model"] = summary_json(model);
  for (const std::uint64_t layer : layers(fidelity))
    json["layers"][std::to_string(layer)] = summary_json(summary(fidelity, layer));
  for (const TensorFidelity* tensor : worst(fidelity, 20)) json["worst"].push_back(tensor->name);
  for (const TensorFidelity& tensor : fidelity.tensors) json["tensors"][tensor.name] = tensor_json(tensor);
  return json;
}

}  // namespace planesmith
