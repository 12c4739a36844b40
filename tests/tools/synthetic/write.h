// Putting a synthetic checkpoint into a directory: shards with their headers and holes for contents, then the
// contents.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "base/context.h"
#include "checkpoint/safetensors.h"
#include "synthetic/weights.h"

namespace planesmith::synthetic {

struct ShardHeader {
  std::string name;  // "model-00001-of-00002.safetensors"
  std::string json;  // the header, not padded yet
};

// Cuts the tensors, in their order, into `count` shards of about the same size (so a weight and its scale may
// end up apart); within a shard they are in the safetensors library's order: wide dtypes first, then by name.
std::vector<ShardHeader> cut_into_shards(const std::vector<Tensor>& tensors, std::uint64_t count);

// The headers kept in a directory (or the directories in it) as <shard name>.json files.
std::vector<ShardHeader> kept_headers(const Context& context, const std::string& directory);

// Writes the shards without contents, and returns the bytes of all tensors together.
std::uint64_t write_shards(const Context& context, const std::string& directory,
                           const std::vector<ShardHeader>& shards);

// model.safetensors.index.json for these shards.
std::string index_json(const std::vector<ShardHeader>& shards, std::uint64_t total_bytes);

// Fills the tensors that `wanted` names. Returns the bytes written.
std::uint64_t fill_shards(const Context& context, const std::string& directory,
                          const std::vector<ShardHeader>& shards, const Weights& weights,
                          const std::function<bool(const Tensor&)>& wanted);

}  // namespace planesmith::synthetic
