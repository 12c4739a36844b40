// The routed experts of a checkpoint:
// family, geometry, and where each expert's tensors are (FORMAT.md section 2).
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "checkpoint/checkpoint.h"
#include "checkpoint/family.h"
#include "format/geometry.h"

namespace planesmith {

enum class Projection { w1, w3, w2 };  // gate, up, down
inline constexpr int kProjections = 3;

// Tensors of one projection of one expert; null where the family has none.
struct ExpertTensors {
  const Tensor* weight = nullptr;
  const Tensor* scale = nullptr;
  const Tensor* scale_2 = nullptr;  // one F32 for the whole tensor
};
using Expert = std::array<ExpertTensors, kProjections>;  // indexed by Projection

struct SparseLayer {
  std::uint64_t index = 0;      // layer index: the transformer's number
  std::uint64_t key = 0;        // layer key: position among the sparse layers
  std::vector<Expert> experts;  // E
};

struct Model {
  Family family = Family::mxfp4;
  format::Geometry geometry;
  std::uint32_t block_rows = 1, block_cols = 1;  // weights that share a scale
  ScaleType scale_type = ScaleType::e8m0;
  std::vector<SparseLayer> layers;  // sorted by index
  // DSpark blocks mtp.0, mtp.1, ... that have routed experts; geometry.drafts of them are among the layers.
  std::uint64_t draft_blocks = 0;
  // Tensors left alone, counted by kind:
  // "MTP", "shared experts", "router", "attention", "norms", "embeddings", ...
  struct Left {
    std::uint64_t tensors = 0, bytes = 0;
  };
  std::map<std::string, Left> left_alone;
  // What is odd but allowed, to be shown: layers with numbers from L on that the config does not account for.
  std::string doubt;

  const SparseLayer* find_layer(std::uint64_t index) const;
};

// Geometry from config.json alone (path: its name, for errors). Errors: a missing key, or a value that is not
// a whole number from 1 to its limit (format/limits.h).
format::Geometry config_geometry(const Json& config, const std::string& path);
// The first sparse layer, where config.json says
// that all layers from there on are sparse (first_k_dense_replace).
std::optional<std::uint64_t> first_sparse_layer(const Json& config);

// quantization_config.weight_block_size; none: absent. Error: it is not two whole numbers.
struct ScaleBlock {
  std::uint32_t rows, cols;
};
std::optional<ScaleBlock> weight_block_size(const Json& config, const std::string& path);

// drafts: how many DSpark blocks (mtp.0 .. mtp.{drafts-1}) count as layers L, L + 1, ...
// (ENGINE.md section 2). A layer is sparse where it has a routed expert, a router, or where
// first_k_dense_replace says so; each must hold all experts. Errors: no routed experts; fused 3-D
// experts (not supported yet, named); experts below two prefixes; an expert, projection or scale
// missing (the first few named, all counted) or extra; a layer of which no tensor at all is
// there; a layout that no family has, named for what it is; two families; dtypes or shapes that
// do not agree with the family, the config or each other; fewer such blocks than drafts (usage).
Model find_experts(const Checkpoint& checkpoint, std::uint64_t drafts = 0);

// The value of a tensor of one F32, such as weight_scale_2, from its shard. NaN and infinities are Errors.
float read_scalar(const File& shard, const Tensor& tensor);

}  // namespace planesmith
