// The routed experts of a checkpoint that is not quantized: BF16, F16 or F32, one tensor for each matrix or
// one for all experts of a layer.
#pragma once

#include <array>
#include <string>
#include <vector>

#include "checkpoint/model.h"
#include "rewrite/job.h"

namespace planesmith {

struct View;  // rewrite/modules.h

struct FloatMatrix {
  const Tensor* tensor = nullptr;  // that holds the matrix, alone or fused
  std::uint64_t offset = 0;        // bytes, from the start of the tensor's data
  std::uint64_t rows = 0, cols = 0;
  FloatType type = FloatType::bf16;
  std::string module;  // "model.layers.1.mlp.experts.0.gate_proj", also where the source is fused
};

struct FloatExperts {
  struct Layer {
    std::uint64_t index = 0;
    std::vector<std::array<FloatMatrix, kProjections>> experts;
  };
  format::Geometry geometry;
  std::vector<Layer> layers;           // sorted by index
  std::vector<const Tensor*> tensors;  // all tensors that hold experts
  bool fused = false;
};

// Fused tensors are gate_up_proj [E, 2I, H] (gate rows first) and down_proj [E, H, I]; all names with or
// without ".weight". Errors: no routed experts; other dtypes (names the command that takes them); a missing
// expert; shapes that do not agree with config.json.
FloatExperts find_float_experts(const Checkpoint& checkpoint);

// Throws the error that names the first non-finite one of these values, if there is one. first: index of the
// first value in the matrix, row-major.
void refuse_nonfinite(const Checkpoint& checkpoint, const FloatMatrix& matrix, const FloatValues& values,
                      std::uint64_t first);

// None: not a float type that can be quantized.
std::optional<FloatType> float_type(Dtype dtype);
// The same of a view that has to hold floats; the error names the tensor and its place in the header.
FloatType float_type(const Checkpoint& checkpoint, const View& view);

}  // namespace planesmith
