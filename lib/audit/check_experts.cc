#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>
#include <mutex>
#include <set>

#include "audit/checks.h"
#include "base/error.h"
#include "base/file.h"
#include "base/parallel.h"
#include "checkpoint/layout.h"
#include "checkpoint/model.h"
#include "checkpoint/tensor_name.h"
#include "format/number.h"

namespace planesmith {
namespace {

float f32_at(const std::vector<std::uint8_t>& bytes, std::size_t i) {
  float value;
  std::memcpy(&value, bytes.data() + 4 * i, sizeof value);
  return value;
}

std::vector<std::uint8_t> read_tensor(const Context& context, const Checkpoint& checkpoint,
                                      const Tensor& tensor) {
  std::vector<std::uint8_t> bytes(tensor.size);
  File::open_read(context.os, checkpoint.shard_path(tensor)).read(bytes, tensor.offset);
  return bytes;
}

struct ScaleCounts {
  std::uint64_t nonfinite = 0, zero = 0, subnormal = 0;

  void add(float value) {
    nonfinite += !std::isfinite(value);
    zero += value == 0;
    subnormal += std::fpclassify(value) == FP_SUBNORMAL;
  }
};

ScaleCounts count_scales(const std::vector<std::uint8_t>& bytes, ScaleType type) {
  ScaleCounts out;
  const std::uint64_t size = format::scale_size(type);
  for (std::size_t at = 0; at + size <= bytes.size(); at += size) {
    const std::uint32_t bits = format::scale_bits(type, bytes.data() + at);
    if (!format::scale_is_finite(type, bits))
      ++out.nonfinite;
    else if (type == ScaleType::e4m3)
      out.subnormal += (bits & 0x78) == 0 && (bits & 7) != 0, out.zero += (bits & 0x7F) == 0;
    else
      out.add(static_cast<float>(format::scale_value(type, bits)));  // e8m0: 2^-127 is subnormal
  }
  return out;
}

// One finding, to which several threads add tensors.
class Tally {
 public:
  void add(const std::string& tensor) {
    const std::lock_guard<std::mutex> lock(mutex_);
    found_.add(tensor);
  }
  void report(Findings& findings, const char* code, Severity severity, const char* what, const char* why,
              const char* fix) const {
    if (found_)
      findings.push_back({code, severity,
                          fmt::format("{} tensors {}, the first is '{}'", found_.count, what, found_.first),
                          why, fix});
  }

 private:
  std::mutex mutex_;
  Several found_;
};

// Whether the scales make even typical weights larger than in any model. Weights of trained experts are well
// below 10; a scale without its reciprocal makes them larger by about the square of 448 * 6 / |w|.
bool too_large(const Context& context, const Checkpoint& checkpoint, const Model& model,
               const ExpertTensors& tensors, const std::vector<std::uint8_t>& scales) {
  constexpr float kMost = 10;
  if (tensors.scale_2 != nullptr)
    return f32_at(read_tensor(context, checkpoint, *tensors.scale_2), 0) > kMost;
  if (scales.empty()) return false;
  const Dtype dtype = tensors.scale->dtype;
  if (dtype == Dtype::f8_e8m0 || dtype == Dtype::u8)
    return *std::min_element(scales.begin(), scales.end()) > 127 + 10;
  if (dtype != Dtype::f32) return false;
  float least = f32_at(scales, 0);
  for (std::size_t i = 1; i < scales.size() / 4; ++i) least = std::min(least, std::fabs(f32_at(scales, i)));
  return traits(model.family).weight_bits == 8 && least > kMost;
}

void check_scales(const Context& context, const Checkpoint& checkpoint, const Model& model,
                  Findings& findings) {
  Tally nonfinite, zero, wholly_zero, subnormal, unequal, all_zero, large;
  const std::uint64_t experts = model.geometry.experts;
  parallel_for(model.layers.size() * experts, context.threads, [&](std::size_t i, int) {
    context.check_stop();
    const Expert& expert = model.layers[i / experts].experts[i % experts];
    const auto note = [&](const Tensor& scale, const ScaleCounts& counts) {
      if (counts.nonfinite != 0) nonfinite.add(scale.name);
      if (counts.zero != 0) zero.add(scale.name);
      if (counts.subnormal != 0) subnormal.add(scale.name);
    };
    for (const ExpertTensors& tensors : expert) {
      const std::vector<std::uint8_t> scales = read_tensor(context, checkpoint, *tensors.scale);
      const ScaleCounts counts = count_scales(scales, model.scale_type);
      const bool zero_2 =
          tensors.scale_2 != nullptr && f32_at(read_tensor(context, checkpoint, *tensors.scale_2), 0) == 0;
      if (zero_2 && counts.nonfinite != 0) {  // the exporter divided 0 by 0
        all_zero.add(tensors.scale->name);
        continue;
      }
      note(*tensors.scale, counts);
      if (std::all_of(scales.begin(), scales.end(), [](std::uint8_t byte) { return byte == 0; }))
        wholly_zero.add(tensors.scale->name);
      if (too_large(context, checkpoint, model, tensors, scales)) large.add(tensors.weight->name);
      if (tensors.scale_2 == nullptr) continue;
      ScaleCounts of_tensor;
      of_tensor.add(f32_at(read_tensor(context, checkpoint, *tensors.scale_2), 0));
      note(*tensors.scale_2, of_tensor);
    }
    const Tensor *gate = expert[0].scale_2, *up = expert[1].scale_2;
    if (gate != nullptr && up != nullptr &&
        read_tensor(context, checkpoint, *gate) != read_tensor(context, checkpoint, *up))
      unequal.add(gate->name);
  });
  all_zero.report(findings, "experts.all-zero", Severity::error,
                  "of expert scales are NaN beside a weight_scale_2 of 0: all weights of the expert are "
                  "zero, and the exporter divided 0 by 0",
                  "conversion refuses them, serving answers with NaN",
                  "quantize the source again with repack-experts quantize, which gives such experts finite "
                  "scales; or set weight_scale_2 to 1 and the scales to 1 (0x38)");
  large.report(
      findings, "experts.scale-inverted", Severity::error,
      "of expert weights are far larger than any model's by their scales",
      "a global scale was copied without taking its reciprocal, or a scale inverted: the weights are up "
      "to 10^8 times too large",
      "translate from the original checkpoint again (repack-experts translate), which takes the reciprocal");
  nonfinite.report(
      findings, "experts.scale-nonfinite", Severity::error, "of expert scales hold a NaN or an infinity",
      "conversion refuses them, serving answers with NaN", "export or download the checkpoint again");
  zero.report(findings, "experts.scale-zero", Severity::warning, "of expert scales hold zeros",
              "whole blocks of weights are zero",
              "compare with the source; some exporters write 0 for empty blocks");
  wholly_zero.report(
      findings, "experts.scale-wholly-zero", Severity::warning, "of expert scales are zero from end to end",
      "the weights below them are zero, or 2^-127 of what their codes say: the scales were never "
      "written, or the download left a hole",
      "compare with the source; where that differs, export or download the shard again");
  subnormal.report(findings, "experts.scale-subnormal", Severity::note,
                   "of expert scales hold subnormal values",
                   "kernels that flush subnormals lose these blocks",
                   "nothing, if the engine is the one planes are made for");
  unequal.report(
      findings, "experts.gate-up-scale", Severity::warning, "of gate and up have different weight_scale_2",
      "fused kernels take one scale for both; planes keep each its own", "export with shared gate/up scales");
}

// Finds layers whose zeros nearly all have one sign; the first expert's gate stands for its layer.
void check_zero_signs(const Context& context, const Checkpoint& checkpoint, const Model& model,
                      Findings& findings) {
  Tally one_signed;
  parallel_for(model.layers.size(), context.threads, [&](std::size_t i, int) {
    const Tensor& weight = *model.layers[i].experts.front()[0].weight;
    std::uint64_t zeros = 0, negative = 0;
    for (const std::uint8_t byte : read_tensor(context, checkpoint, weight)) {
      if (traits(model.family).weight_bits == 8) {
        zeros += (byte & 0x7F) == 0;
        negative += byte == 0x80;
      } else {
        for (const unsigned nibble : {byte & 15u, unsigned{byte} >> 4}) {
          zeros += (nibble & 7) == 0;
          negative += nibble == 8;
        }
      }
    }
    // A few zeros make no bias.
    const std::uint64_t elements = weight.size * 8 / traits(model.family).weight_bits;
    if (zeros >= 16 && 5000 * zeros >= elements && 20 * std::min(negative, zeros - negative) < zeros)
      one_signed.add(weight.name);
  });
  one_signed.report(
      findings, "experts.one-signed-zeros", Severity::warning,
      "of those sampled (the first expert's gate of each layer) have zeros of one sign",
      "the codebook has no zero: zeros of one sign become a bias, and bias is what breaks 2-bit experts",
      !traits(model.family).requantized ? "export again with signed zeros; MXFP4 data is never balanced"
                                        : "leave --zero-mode at auto, which balances them");
}

// weights: how many there are of single experts, by layer.
void check_counts(const Inventory& inventory, const std::map<std::uint64_t, std::uint64_t>& weights,
                  Findings& findings) {
  std::uint64_t experts = 0, found = 0;
  try {
    experts = config_geometry(inventory.config, inventory.path(std::string(kConfigName))).experts;
  } catch (const Error&) {
    return;  // check_experts reports it
  }
  Several incomplete;
  for (const auto& [layer, count] : weights) {
    found += count;
    if (count != experts * kProjections) incomplete.add(fmt::format("{}, with {}", layer, count));
  }
  if (incomplete)
    findings.push_back(
        {"experts.incomplete", Severity::error,
         fmt::format(
             "{} layers x {} experts x {} make {} weights, the shards hold {}; {} layers have another "
             "number, the first is layer {}",
             weights.size(), experts, kProjections, weights.size() * experts * kProjections, found,
             incomplete.count, incomplete.first),
         "the router sends tokens to experts that are not there", "export or download the checkpoint again"});
}

// The weights of experts in a layout that is to be translated, where each has tensors of its own.
void check_packed_counts(const Inventory& inventory, Findings& findings) {
  std::map<std::uint64_t, std::uint64_t> weights;
  for (const auto& [name, tensor] : inventory.tensors) {
    const TensorName parsed = parse_tensor_name(name, inventory.layers(), tensor.shape.size());
    const bool single = parsed.kind == TensorName::Kind::expert ||
                        (parsed.kind == TensorName::Kind::strange_expert && parsed.main_layer);
    if (single && quantized(tensor) && (name.ends_with(".weight") || name.ends_with(".weight_packed")))
      ++weights[parsed.layer];
  }
  check_counts(inventory, weights, findings);
}

// The global scales of llm-compressor's experts, whose reciprocals translate takes.
void check_global_scales(const Context& context, const Inventory& inventory, Findings& findings) {
  std::vector<const Tensor*> scales;
  for (const auto& [name, tensor] : inventory.tensors)
    if (name.ends_with(".weight_global_scale") && tensor.dtype == Dtype::f32 && tensor.size == 4)
      if (const TensorName parsed = parse_tensor_name(name, inventory.layers(), tensor.shape.size());
          parsed.main_layer && parsed.kind == TensorName::Kind::strange_expert)
        scales.push_back(&tensor);
  Tally infinite, useless;
  parallel_for(scales.size(), context.threads, [&](std::size_t i, int) {
    context.check_stop();
    std::vector<std::uint8_t> bytes(4);
    File::open_read(context.os, inventory.shard_path(*scales[i])).read(bytes, scales[i]->offset);
    const float scale = f32_at(bytes, 0);
    if (std::isinf(scale))
      infinite.add(scales[i]->name);
    else if (scale == 0 || std::isnan(scale))
      useless.add(scales[i]->name);
  });
  infinite.report(findings, "experts.all-zero", Severity::error,
                  "of global scales of experts are infinite: all weights of the expert are zero, and the "
                  "quantizer divided by 0",
                  "translation refuses them, serving answers with NaN",
                  "quantize the source again with repack-experts quantize, which gives such experts finite "
                  "scales");
  useless.report(
      findings, "experts.scale-nonfinite", Severity::error, "of global scales of experts are 0 or NaN",
      "translation refuses them, as no weight has a value", "export or download the checkpoint again");
}

// Whether the builders read the layout. A checkpoint that is not quantized yet, or has another layout, is not
// damaged: one finding says what it is and what to do next, and the other checks of experts are skipped.
bool check_layout(const Context& context, const Inventory& inventory, Findings& findings) {
  std::vector<const Tensor*> tensors;
  for (const auto& [name, tensor] : inventory.tensors) tensors.push_back(&tensor);
  const LayoutVerdict verdict = judge_layout(with_modelopt(inventory.config, inventory.modelopt), tensors);
  switch (verdict.lead) {
    case Lead::build:
      if (!verdict.sentence.empty())
        findings.push_back({"experts.layout", Severity::note, verdict.sentence,
                            "the builders and the engine read this layout", "nothing"});
      return true;
    case Lead::quantize:
      findings.push_back({"experts.not-quantized", Severity::note, verdict.sentence,
                          "planes are made of quantized experts",
                          "quantize it, or give the quantized checkpoint instead"});
      return false;
    case Lead::translate:
      findings.push_back({"experts.layout", Severity::warning, verdict.sentence,
                          "neither the engine nor the builders read this layout",
                          "translate it: nothing is lost"});
      check_packed_counts(inventory, findings);
      check_global_scales(context, inventory, findings);
      return false;
    case Lead::none:
      break;
  }
  findings.push_back({"experts.layout", Severity::error, verdict.sentence,
                      "planes cannot be made of this checkpoint",
                      "start from the model's float weights, or choose a model that is served"});
  return false;
}

// Checks that need only names and dtypes; they run even where find_experts() refuses the checkpoint.
void check_names(const Inventory& inventory, Findings& findings) {
  std::map<Dtype, std::pair<std::string, std::set<std::uint64_t>>> dtypes;  // the first weight and the layers
  std::map<std::uint64_t, std::uint64_t> weights;                           // layer to number of weights
  std::set<std::string> scaled;                                             // modules that have a scale
  Several fused, unscaled;
  for (const auto& [name, tensor] : inventory.tensors) {
    const TensorName parsed = parse_tensor_name(name, inventory.layers(), tensor.shape.size());
    if (parsed.kind == TensorName::Kind::fused_experts) fused.add(name);
    if (parsed.kind != TensorName::Kind::expert) continue;
    if (parsed.role == Role::weight) {
      ++weights[parsed.layer];
      auto& [first, layers] = dtypes.try_emplace(tensor.dtype, name, std::set<std::uint64_t>{}).first->second;
      layers.insert(parsed.layer);
    } else if (parsed.role == Role::scale) {
      scaled.insert(name.substr(0, name.find_last_of('.')));
    }
  }
  for (const auto& [name, tensor] : inventory.tensors) {
    const TensorName parsed = parse_tensor_name(name, inventory.layers(), tensor.shape.size());
    if (parsed.kind == TensorName::Kind::expert && parsed.role == Role::weight &&
        !scaled.contains(name.substr(0, name.find_last_of('.'))))
      unscaled.add(name);
  }
  if (fused)
    findings.push_back({"experts.fused", Severity::error,
                        fmt::format("{} tensors hold all experts of a layer each, the first is '{}'",
                                    fused.count, fused.first),
                        "a recipe that targets Linear modules silently skips them, and planes cannot "
                        "be made of them yet",
                        "unfuse the experts before quantizing"});
  if (unscaled)
    findings.push_back(
        {"experts.scale-missing", Severity::error,
         fmt::format("{} expert weights have no scale, the first is '{}'", unscaled.count, unscaled.first),
         "they were left out of quantization, or their scales were lost",
         "export or download the checkpoint again"});
  if (dtypes.size() > 1) {
    const auto [other, usual] = std::minmax_element(
        dtypes.begin(), dtypes.end(),
        [](const auto& a, const auto& b) { return a.second.second.size() < b.second.second.size(); });
    findings.push_back(
        {"experts.mixed-dtypes", Severity::error,
         fmt::format("expert weights are {} in {} layers, such as '{}', and {} in {}, such as '{}'",
                     name(usual->first), usual->second.second.size(), usual->second.first, name(other->first),
                     other->second.second.size(), other->second.first),
         "a layer was left out of quantization, or quantized twice", "quantize all expert layers alike"});
  }
  check_counts(inventory, weights, findings);
}

// Whether planes of this geometry divide among `world` ranks,
// and whether the engine is known to serve this architecture from planes.
void check_serving(const Inventory& inventory, const Model& model, std::uint64_t world, Findings& findings) {
  try {
    const format::RankShape shape = format::rank_shape(model.geometry, world);
    if (shape.slice % model.block_rows != 0 || shape.slice % model.block_cols != 0)
      throw Error(fmt::format("a rank's slice of {} does not divide into scale blocks of {} x {}",
                              shape.slice, model.block_rows, model.block_cols));
  } catch (const Error& error) {
    findings.push_back({"serving.world", Severity::error, error.what(),
                        fmt::format("the planes format cannot hold this geometry for world {}", world),
                        "serve with a smaller --world"});
  }
  constexpr std::string_view kCompared[] = {"DeepseekV4ForCausalLM", "GlmMoeDsaForCausalLM",
                                            "KimiK25ForConditionalGeneration"};
  const Json& architectures = config_value(inventory.config, "architectures");
  if (!architectures.is_array() || architectures.empty() || !architectures[0].is_string()) return;
  const std::string architecture = architectures[0].get<std::string>();
  if (std::find(std::begin(kCompared), std::end(kCompared), architecture) == std::end(kCompared))
    findings.push_back(
        {"serving.architecture", Severity::warning, fmt::format("the architecture is {}", architecture),
         "planes were compared with the engine's own for DeepSeek-V4, GLM-5 and Kimi-K2 models only",
         "make sure that the engine serves it before converting all of it"});
}

}  // namespace

std::optional<Experts> check_experts(const Context& context, const Inventory& inventory, std::uint64_t world,
                                     Findings& findings) {
  if (!check_layout(context, inventory, findings)) return std::nullopt;
  check_names(inventory, findings);
  try {
    const Checkpoint checkpoint = Checkpoint::open(context, inventory.directory);
    const Model model = find_experts(checkpoint);
    findings.push_back({"experts.complete", Severity::note,
                        fmt::format("{} experts, {} sparse layers x {} experts x {} weights, H={} I={}",
                                    name(model.family), model.layers.size(), model.geometry.experts,
                                    kProjections, model.geometry.hidden, model.geometry.intermediate),
                        "names, shapes and counts agree", "nothing"});
    check_scales(context, checkpoint, model, findings);
    check_zero_signs(context, checkpoint, model, findings);
    check_serving(inventory, model, world, findings);
    return Experts{model.family, model.geometry, model.layers.size() * model.geometry.experts * kProjections};
  } catch (const Error& error) {
    if (is_stop(error.code())) throw;
    findings.push_back({"experts.refused", Severity::error, error.what(),
                        "planes cannot be made of this checkpoint",
                        "see the findings above; the message names the first tensor that is wrong"});
    return std::nullopt;
  }
}

}  // namespace planesmith
