#include <fmt/format.h>

#include <atomic>
#include <cmath>
#include <cstring>
#include <mutex>
#include <set>

#include "audit/checks.h"
#include "base/error.h"
#include "base/file.h"
#include "base/parallel.h"
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

std::vector<std::uint8_t> read_tensor(const Context& context, const Checkpoint& checkpoint, const Tensor& tensor) {
  std::vector<std::uint8_t> bytes(tensor.size);
  File::open_read(context.os, checkpoint.shard_path(tensor)).read(bytes, tensor.offset);
  return bytes;
}

struct ScaleCounts {
  std::uint64_t nonfinite = 0, zero = 0, subnormal = 0;
};

ScaleCounts count_scales(const std::vector<std::uint8_t>& bytes, Family family, bool e8m0) {
  ScaleCounts out;
  if (family == Family::nvfp4) {
    for (const std::uint8_t b : bytes) {
      out.nonfinite += format::e4m3_is_nan(b);
      out.zero += (b & 0x7F) == 0;
      out.subnormal += (b & 0x78) == 0 && (b & 7) != 0;
    }
  } else if (e8m0) {
    for (const std::uint8_t b : bytes) out.nonfinite += format::e8m0_is_nan(b);
  } else {
    for (std::size_t i = 0; i < bytes.size() / 4; ++i) {
      const float value = f32_at(bytes, i);
      out.nonfinite += !std::isfinite(value);
      out.zero += value == 0;
      out.subnormal += std::fpclassify(value) == FP_SUBNORMAL;
    }
  }
  return out;
}

// Findings of one kind over many tensors: how many, and the first by name.
class Tally {
 public:
  void add(const std::string& tensor) {
    const std::lock_guard<std::mutex> lock(mutex_);
    ++count_;
    if (first_.empty() || tensor < first_) first_ = tensor;
  }
  void report(Findings& findings, const char* code, Severity severity, const char* what, const char* why,
              const char* fix) const {
    if (count_ != 0)
      findings.push_back({code, severity, fmt::format("{} tensors {}, the first is '{}'", count_, what, first_), why, fix});
  }

 private:
  std::mutex mutex_;
  std::uint64_t count_ = 0;
  std::string first_;
};

void check_scales(const Context& context, const Checkpoint& checkpoint, const Model& model, Findings& findings) {
  Tally nonfinite, zero, subnormal, unequal;
  const std::uint64_t experts = model.geometry.experts;
  parallel_for(model.layers.size() * experts, context.threads, [&](std::size_t i, int) {
    context.check_stop();
    const Expert& expert = model.layers[i / experts].experts[i % experts];
    for (const ExpertTensors& tensors : expert) {
      const std::vector<std::uint8_t> scales = read_tensor(context, checkpoint, *tensors.scale);
      const ScaleCounts counts = count_scales(scales, model.family, model.scale_is_e8m0);
      if (counts.nonfinite != 0) nonfinite.add(tensors.scale->name);
      if (counts.zero != 0) zero.add(tensors.scale->name);
      if (counts.subnormal != 0) subnormal.add(tensors.scale->name);
      if (tensors.scale_2 == nullptr) continue;
      const float scale_2 = f32_at(read_tensor(context, checkpoint, *tensors.scale_2), 0);
      if (!std::isfinite(scale_2)) nonfinite.add(tensors.scale_2->name);
      if (scale_2 == 0) zero.add(tensors.scale_2->name);
    }
    const Tensor *gate = expert[0].scale_2, *up = expert[1].scale_2;
    if (gate != nullptr && up != nullptr &&
        read_tensor(context, checkpoint, *gate) != read_tensor(context, checkpoint, *up))
      unequal.add(gate->name);
  });
  nonfinite.report(findings, "experts.scale-nonfinite", Severity::error, "of expert scales hold a NaN or an infinity",
                   "conversion refuses them, serving answers with NaN", "export or download the checkpoint again");
  zero.report(findings, "experts.scale-zero", Severity::warning, "of expert scales hold zeros",
              "whole blocks of weights are zero", "compare with the source; some exporters write 0 for empty blocks");
  subnormal.report(findings, "experts.scale-subnormal", Severity::note, "of expert scales hold subnormal values",
                   "kernels that flush subnormals lose these blocks", "nothing, if the engine is the one planes are made for");
  unequal.report(findings, "experts.gate-up-scale", Severity::warning, "of gate and up have different weight_scale_2",
                 "fused kernels take one scale for both; planes keep each its own", "export with shared gate/up scales");
}

// Share of negative ones among the zeros of the first expert's gate of each layer.
void check_zero_signs(const Context& context, const Checkpoint& checkpoint, const Model& model, Findings& findings) {
  if (model.family == Family::fp8) return;
  Tally one_signed;
  parallel_for(model.layers.size(), context.threads, [&](std::size_t i, int) {
    const Tensor& weight = *model.layers[i].experts.front()[0].weight;
    std::uint64_t zeros = 0, negative = 0;
    for (const std::uint8_t byte : read_tensor(context, checkpoint, weight))
      for (const unsigned nibble : {byte & 15u, unsigned{byte} >> 4}) {
        zeros += (nibble & 7) == 0;
        negative += nibble == 8;
      }
    if (20 * std::min(negative, zeros - negative) < zeros) one_signed.add(weight.name);
  });
  one_signed.report(findings, "experts.one-signed-zeros", Severity::warning,
                    "of those sampled (the first expert's gate of each layer) have zeros of one sign",
                    "the codebook has no zero: zeros of one sign become a bias, and bias is what breaks 2-bit experts",
                    model.family == Family::mxfp4 ? "export again with signed zeros; MXFP4 data is never balanced"
                                                  : "leave --zero-mode at auto, which balances them");
}

// Fused experts, and dtypes that differ between layers, seen even where the experts as a whole are incomplete.
void check_names(const Inventory& inventory, Findings& findings) {
  std::map<Dtype, std::string> dtypes;
  std::string fused;
  for (const auto& [name, tensor] : inventory.tensors) {
    const TensorName parsed = parse_tensor_name(name, inventory.layers(), tensor.shape.size());
    if (parsed.kind == TensorName::Kind::fused_experts && fused.empty()) fused = name;
    if (parsed.kind == TensorName::Kind::expert && parsed.role == Role::weight) dtypes.emplace(tensor.dtype, name);
  }
  if (!fused.empty())
    findings.push_back({"experts.fused", Severity::error, fmt::format("'{}' holds all experts of a layer in one tensor", fused),
                        "a recipe that targets Linear modules skips it without a word, and planes cannot be made of it yet",
                        "unfuse the experts before quantizing"});
  if (dtypes.size() > 1)
    findings.push_back({"experts.mixed-dtypes", Severity::error,
                        fmt::format("expert weights are {} in '{}' and {} in '{}'", name(dtypes.begin()->first),
                                    dtypes.begin()->second, name(dtypes.rbegin()->first), dtypes.rbegin()->second),
                        "a layer was left out of quantization, or quantized twice", "quantize all expert layers alike"});
}

}  // namespace

void check_experts(const Context& context, const Inventory& inventory, const AuditRequest& request, Findings& findings) {
  check_names(inventory, findings);
  try {
    const Checkpoint checkpoint = Checkpoint::open(context, inventory.folder);
    const Model model = find_experts(checkpoint);
    findings.push_back({"experts.complete", Severity::note,
                        fmt::format("{} experts, {} sparse layers x {} experts x 3 weights, H={} I={}", name(model.family),
                                    model.layers.size(), model.geometry.experts, model.geometry.hidden,
                                    model.geometry.intermediate),
                        "the arithmetic comes out", "nothing"});
    check_scales(context, checkpoint, model, findings);
    check_zero_signs(context, checkpoint, model, findings);
    try {
      const format::RankShape shape = format::rank_shape(model.geometry, request.world);
      if (model.family == Family::fp8 && (shape.slice % model.block_rows != 0 || shape.slice % model.block_cols != 0))
        throw Error(fmt::format("a rank's slice of {} does not divide into scale blocks of {} x {}", shape.slice,
                                model.block_rows, model.block_cols));
    } catch (const Error& error) {
      findings.push_back({"serving.world", Severity::error, error.what(),
                          fmt::format("the planes format cannot hold this geometry for world {}", request.world),
                          "serve with a smaller --world"});
    }
  } catch (const Error& error) {
    if (error.code() == ErrorCode::interrupted || error.code() == ErrorCode::terminated) throw;
    findings.push_back({"experts.refused", Severity::error, error.what(), "planes cannot be made of this checkpoint",
                        "see the findings above; the message names the first tensor that is wrong"});
  }
}

void check_profile(const Inventory& inventory, const Profile& profile, Findings& findings) {
  format::Geometry found;
  try {
    found = config_geometry(inventory.config, inventory.path("config.json"));
  } catch (const Error& error) {
    findings.push_back({"profile.unknown-geometry", Severity::error, error.what(), "it cannot be compared with the profile",
                        "repair config.json"});
    return;
  }
  const auto differ = [&](const char* what, std::uint64_t is, std::uint64_t should) {
    if (is != should)
      findings.push_back({"profile.geometry", Severity::error,
                          fmt::format("{} is {}, profile {} has {}", what, is, profile.name, should),
                          "it is another model, or a pruned one", "choose the profile of this model"});
  };
  if (const auto& known = profile.geometry) {
    differ("num_hidden_layers", found.layers, known->layers);
    differ("the number of routed experts", found.experts, known->experts);
    differ("hidden_size", found.hidden, known->hidden);
    differ("moe_intermediate_size", found.intermediate, known->intermediate);
  }
  if (profile.expert_tensors) {
    std::uint64_t weights = 0;
    for (const auto& [name, tensor] : inventory.tensors) {
      const TensorName parsed = parse_tensor_name(name, inventory.layers(), tensor.shape.size());
      weights += parsed.kind == TensorName::Kind::expert && parsed.role == Role::weight;
    }
    differ("the number of expert weights", weights, *profile.expert_tensors);
  }
}

}  // namespace planesmith
