// The routed experts of a checkpoint that is not quantized yet: BF16, F16 or F32, one tensor for each or
// all of a layer in one.
#pragma once

#include <array>
#include <string>
#include <vector>

#include "checkpoint/model.h"
#include "rewrite/job.h"

namespace planesmith {

struct FloatMatrix {
  const Tensor* tensor = nullptr;  // that it is, or is a part of
  std::uint64_t offset = 0;        // bytes, in the tensor
  std::uint64_t rows = 0, cols = 0;
  FloatType type = FloatType::bf16;
  std::string module;  // "model.layers.1.mlp.experts.0.gate_proj", also where the source has it fused
};

struct FloatExperts {
  struct Layer {
    std::uint64_t index = 0;
    std::vector<std::array<FloatMatrix, kProjections>> experts;
  };
  format::Geometry geometry;
  std::vector<Layer> layers;           // sorted by index
  std::vector<const Tensor*> tensors;  // all that the experts are made of
  bool fused = false;
};

// Fused tensors are [E, 2I, H] (gate rows first) and [E, H, I], named gate_up_proj and down_proj; all names
// with or without ".weight". Errors: no routed experts, experts of other dtypes (with the command that takes
// them), one missing, shapes that do not agree with config.json.
FloatExperts find_float_experts(const Checkpoint& checkpoint);

// The error that names the first of these weights of a matrix that is not finite, where there is one. first:
// of the values, counted in the matrix.
void refuse_nonfinite(const Checkpoint& checkpoint, const FloatMatrix& matrix, const FloatValues& values,
                      std::uint64_t first);

// The type of a dtype; none: not a float that can be quantized.
std::optional<FloatType> float_type(Dtype dtype);

}  // namespace planesmith
