// The quantized modules of a checkpoint from any tool: which tensors, or parts of fused tensors, are the
// weight and the scales of each module.
#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "checkpoint/recipe.h"
#include "rewrite/job.h"

namespace planesmith {

// A tensor, or consecutive rows of one.
struct View {
  const Tensor* tensor = nullptr;
  std::uint64_t offset = 0, size = 0;  // bytes, from the start of the tensor's data
  std::vector<std::uint64_t> shape;
  Dtype dtype() const { return tensor->dtype; }
  bool whole() const { return size == tensor->size; }
};

struct QuantModule {
  std::string name;  // "model.layers.1.mlp.experts.0.gate_proj", also where the source is fused
  Scheme scheme = Scheme::none;
  std::string format;                              // the recipe's name for it
  std::map<std::string, View, std::less<>> parts;  // by last component: "weight_packed", "weight_scale"
  std::uint64_t rows = 0, cols = 0;                // of the weight
  std::uint64_t block_rows = 0, block_cols = 0;    // of fp8_block
  bool activations = false;                        // the recipe has settings for activations
  bool expert = false;                             // a routed expert of a main layer

  const View* part(std::string_view word) const;
  // The first of these parts that exists; null: none does.
  const View* part(std::initializer_list<std::string_view> words) const;
  const View& weight() const;
  const View& scale() const;  // for each group, block or row, or for the whole tensor
};

struct Modules {
  std::vector<QuantModule> quantized;  // sorted by name
  std::vector<const Tensor*> others;   // all other tensors
  std::set<std::string> unquantized;  // names of modules with an unquantized weight of two or more dimensions
};

// Errors: scales without a weight, a weight packed in an unknown way, fused tensors that cannot be
// split, shapes of weight and scales that do not agree.
Modules find_modules(const Checkpoint& checkpoint, const QuantRecipe& recipe);

// For messages: "FP8 with a scale for each row".
std::string_view describe(Scheme scheme);

}  // namespace planesmith
