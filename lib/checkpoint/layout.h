// What a checkpoint is to the programs: read as it is, or which command leads on.
#pragma once

#include <string>

#include "checkpoint/checkpoint.h"
#include "checkpoint/recipe.h"

namespace planesmith {

struct LayoutVerdict {
  Lead lead = Lead::build;
  std::string sentence;  // what it is and what to do; empty where the builders read it and config.json names
                         // no format
};

// From config.json and the names, dtypes and shapes of the experts' tensors; says nothing of what is missing.
LayoutVerdict judge_layout(const Checkpoint& checkpoint);
// The same of a checkpoint whose headers were read otherwise: `tensors` are asked one after the other.
LayoutVerdict judge_layout(const Json& config, const std::vector<const Tensor*>& tensors);

// A model whose experts the engine reads as MXFP4.
bool is_deepseek_v4(const Json& config);

}  // namespace planesmith
