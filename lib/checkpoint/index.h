// model.safetensors.index.json: which shard holds which tensor.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/file.h"

namespace planesmith {

struct CheckpointIndex {
  struct Entry {
    std::string tensor;
    std::uint32_t shard = 0;  // index into shards
  };
  std::vector<std::string> shards;  // names as written, sorted, each once
  std::vector<Entry> entries;       // sorted by tensor name, each once

  const Entry* find(std::string_view tensor) const;  // null: not listed
};

// Errors: malformed JSON, no "weight_map" object of strings or an empty one, a tensor listed twice, and a
// shard name that is empty, absolute or leaves the directory by "..". (Links out of the directory are
// allowed: in a Hugging Face cache every shard is one.)
CheckpointIndex read_checkpoint_index(const File& file);

}  // namespace planesmith
