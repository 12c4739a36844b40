#include "fidelity/report.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/file.h"
#include "base/text.h"
#include "page/page.h"

namespace planesmith {
namespace {

constexpr std::size_t kWorst = 100;

Json levels_json(const Fidelity& fidelity) {
  Counts counts{};
  std::uint64_t all = 0;
  for (const TensorFidelity& tensor : fidelity.tensors)
    for (unsigned n = 0; n < 16; ++n) {
      counts[n] += tensor.counts[n];
      all += tensor.counts[n];
    }
  Json json;
  const auto add = [&](unsigned nibble) {
    json["names"].push_back(
        fmt::format("{}{}", nibble & 8 ? "\u2212" : "", format::twice_magnitude(nibble) / 2.0));
    json["shares"].push_back(static_cast<double>(counts[nibble]) / static_cast<double>(all));
  };
  for (unsigned m = 8; m-- > 0;) add(m | 8);
  for (unsigned m = 0; m < 8; ++m) add(m);
  return json;
}

// Figures of the served codebook by layer:
// the mean over the experts for each projection, and each expert's worst projection.
void add_layers(const Fidelity& fidelity, Json& json) {
  const std::size_t experts = fidelity.tensors.size() / kProjections / layers(fidelity).size();
  std::size_t at = 0;
  for (const std::uint64_t layer : layers(fidelity)) {
    const FidelitySummary sum = summary(fidelity, layer);
    json["layers"].push_back(layer);
    json["bias"]["asym"].push_back(sum.bias_asymmetric);
    json["bias"]["served"].push_back(sum.bias_served);
    json["bias"]["absolute"].push_back(sum.abs_bias_served);
    json["rms"]["optimum"].push_back(sum.rms_asymmetric);
    std::array<double, kProjections> rms{};
    Json worst_bias = Json::array(), worst_rms = Json::array();
    for (std::size_t e = 0; e < experts; ++e) {
      double bias = 0, most = 0;
      for (std::size_t p = 0; p < kProjections; ++p, ++at) {
        const Deviation& served = fidelity.tensors[at].served.deviation;
        rms[p] += served.rms_ratio() / static_cast<double>(experts);
        if (std::abs(served.bias()) > std::abs(bias)) bias = served.bias();
        most = std::max(most, served.rms_ratio());
      }
      worst_bias.push_back(std::round(bias * 1e6) / 1e6);
      worst_rms.push_back(std::round(most * 1e5) / 1e5);
    }
    json["heat"]["bias"].push_back(worst_bias);
    json["heat"]["rms"].push_back(worst_rms);
    constexpr const char* kNames[] = {"w1", "w3", "w2"};
    for (std::size_t p = 0; p < kProjections; ++p) json["rms"][kNames[p]].push_back(rms[p]);
  }
}

std::string words(const Fidelity& fidelity, const FidelitySummary& sum) {
  std::string text = fmt::format(
      "{} expert tensors in {} layers. With the codebook that the engine serves a weight is off by {:.4f} on "
      "average in one direction (mean |bias| per tensor), against {:.4f} with the optimum that ignores "
      "signs, while the relative RMS error is {:.4f} against {:.4f}: what matters is that errors cancel out, "
      "not that they are small.",
      sum.tensors, layers(fidelity).size(), sum.abs_bias_served, sum.abs_bias_asymmetric, sum.rms_served,
      sum.rms_asymmetric);
  if (sum.requantized)
    text += fmt::format(
        " Zeros keep their signs (mode sign): mean |bias| {:.4f}; alternate (alt): {:.4f}; the mode auto, "
        "which all figures here are for, chooses between them.",
        sum.abs_bias_sign, sum.abs_bias_alt);
  if (sum.of_floats)
    text += fmt::format(
        " Against the {} weights, NVFP4 has a relative RMS error of {:.4f}, and what is served in 2 bits "
        "{:.4f} (means over tensors; mean |bias| {:.5f} and {:.5f} of the mean magnitude).",
        fidelity.source, sum.rms_nvfp4, sum.rms_codebook, sum.abs_bias_nvfp4, sum.abs_bias_codebook);
  return text;
}

Json worst_json(const Fidelity& fidelity) {
  Json list = Json::array();
  for (const TensorFidelity* tensor : worst(fidelity, kWorst)) {
    list.push_back({{"name", tensor->name},
                    {"layer", tensor->layer},
                    {"expert", tensor->expert},
                    {"bias", tensor->served.deviation.bias()},
                    {"abs_bias", std::abs(tensor->served.deviation.bias())},
                    {"rms", tensor->served.deviation.rms_ratio()},
                    {"bias_asym", tensor->asymmetric.deviation.bias()},
                    {"best", levels_text(tensor->symmetric.levels)},
                    {"zeros", tensor->zero_share()},
                    {"positive", tensor->positive_zeros()}});
    if (const auto& costs = tensor->costs)
      list.back().update({{"nvfp4", costs->nvfp4.rms}, {"codebook", costs->served.rms}});
  }
  return list;
}

}  // namespace

std::string report_html(const Fidelity& fidelity, const Evidence& evidence) {
  const FidelitySummary sum = summary(fidelity);
  const Verdict result = verdict(sum);
  const format::Geometry& g = fidelity.geometry;
  Json json = {
      {"title", printable(name_of(evidence.directory))},
      {"evidence",
       {{"checkpoint", printable(evidence.directory)},
        {"content id", evidence.content_id},
        {"geometry", fmt::format("{} layers, {} experts, hidden size {}, expert width {}; {} layers judged",
                                 g.layers, g.experts, g.hidden, g.intermediate, layers(fidelity).size())},
        {"date", evidence.date},
        {"made by", evidence.version}}},
      {"limits", {{"bias", kMostBias}, {"rms", kMostRms}}},
      {"what", fmt::format("Routed experts {}, judged tensor by tensor; all errors in units of e2m1, before "
                           "the scales.",
                           fidelity.source.empty()
                               ? fmt::format("of the {} family", name(fidelity.family))
                               : fmt::format("in {}, as the {} that repack-experts quantize makes of them",
                                             fidelity.source, name(fidelity.family)))},
      {"holds", result.holds()},
      {"checks", Json::array()},
      {"words", words(fidelity, sum)},
      {"levels", levels_json(fidelity)},
      {"worst", worst_json(fidelity)}};
  for (const Verdict::Check& check : result.checks)
    json["checks"].push_back({{"text", check.text}, {"holds", check.holds}});
  add_layers(fidelity, json);
  return fill_page(kFidelityPage, json);
}

}  // namespace planesmith
