// Whether the programs read a checkpoint directly, or which command to run first.
#pragma once

#include <string>

#include "checkpoint/checkpoint.h"
#include "checkpoint/recipe.h"

namespace planesmith {

struct LayoutVerdict {
  Lead lead = Lead::build;
  // What it is and what to do; empty where the builders read it and config.json names no format.
  std::string sentence;
};

// Judges config.json and the names, dtypes and shapes of the experts' tensors,
// but not whether any are missing.
LayoutVerdict judge_layout(const Checkpoint& checkpoint);
// The same for tensors that did not come from a Checkpoint.
LayoutVerdict judge_layout(const Json& config, const std::vector<const Tensor*>& tensors);

// Scales of FP8 blocks as modelopt shapes them, [N / rows, 1, K / columns, 1].
bool is_block_grid(const std::vector<std::uint64_t>& shape);

// Whether config.json has weight_block_size, from which builders and engine take the size of FP8 blocks.
bool names_block_size(const Json& config);

// DeepSeek-V4, whose experts the engine reads as MXFP4.
bool is_deepseek_v4(const Json& config);

}  // namespace planesmith
