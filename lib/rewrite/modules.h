// The quantized modules of a checkpoint, whatever wrote it: which tensors, or which parts of tensors that
// hold all experts of a layer, are the weight and the scales of which module.
#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "checkpoint/recipe.h"
#include "rewrite/job.h"

namespace planesmith {

// A tensor, or rows of one that follow each other.
struct View {
  const Tensor* tensor = nullptr;
  std::uint64_t offset = 0, size = 0;  // bytes, in the tensor
  std::vector<std::uint64_t> shape;
  Dtype dtype() const { return tensor->dtype; }
  bool whole() const { return size == tensor->size; }
};

struct QuantModule {
  std::string name;  // "model.layers.1.mlp.experts.0.gate_proj", also where the source has all experts in one
  Scheme scheme = Scheme::none;
  std::string format;  // as the recipe calls it
  std::map<std::string, View, std::less<>>
      parts;                         // by the last word of the name: "weight_packed", "weight_scale"
  std::uint64_t rows = 0, cols = 0;  // of the weight
  std::uint64_t block_rows = 0, block_cols = 0;  // fp8_block
  bool activations = false;                      // the recipe has settings for them
  bool expert = false;                           // a routed one of a main layer

  const View* part(std::string_view word) const;
  // The first of these that is there.
  const View* part(std::initializer_list<std::string_view> words) const;
  const View& weight() const;
  const View& scale() const;  // of groups, blocks, rows or the tensor
};

struct Modules {
  std::vector<QuantModule> quantized;  // sorted by name
  std::vector<const Tensor*> others;   // tensors that belong to none of them
  std::set<std::string> unquantized;   // modules with a weight of two dimensions or more
};

// Errors: scales without a weight, a weight packed in an unknown way, fused tensors that cannot be
// split, shapes of weight and scales that do not agree.
Modules find_modules(const Checkpoint& checkpoint, const QuantRecipe& recipe);

// Words for messages: "FP8 with a scale for each row".
std::string_view describe(Scheme scheme);

}  // namespace planesmith
