// Which tensors a synthetic checkpoint has: the names, dtypes and proportions of the published models, with
// everything around the routed experts shrunk to what a reader has to tell apart from them.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "checkpoint/safetensors.h"
#include "format/geometry.h"

namespace planesmith::synthetic {

enum class Style { deepseek_v4, glm_fp8, glm_nvfp4, kimi_nvfp4 };

struct Spec {
  Style style = Style::deepseek_v4;
  format::Geometry geometry;
  std::uint64_t dense_layers = 0;  // the first ones; not for DeepSeek-V4, which has none
  std::uint64_t mtp_layers = 1;
};

// In the order of the model; offset, size and shard unset.
std::vector<Tensor> tensors_of(const Spec& spec);
Json config_of(const Spec& spec);

}  // namespace planesmith::synthetic
