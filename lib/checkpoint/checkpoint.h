// A checkpoint directory: config, index, shards and their tensors. Opening it reads headers only.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/context.h"
#include "base/json.h"
#include "checkpoint/safetensors.h"

namespace planesmith {

struct Shard {
  std::string name;  // as the index lists it, relative to the directory
  std::string path;  // directory + name
  std::uint64_t file_bytes = 0;
  std::uint64_t header_bytes = 0;
};

class Checkpoint {
 public:
  // Reads config.json, the index and the shards' headers (in parallel). With an index only what it lists is
  // read, and every listed tensor must be in the shard the index names; without one, every *.safetensors of
  // the directory, and no two of them may hold the same tensor. Errors name what is wrong and where.
  static Checkpoint open(const Context& context, const std::string& directory);

  Checkpoint(Checkpoint&&) = default;  // the look-up by name points into the tensors: moved, never copied
  Checkpoint& operator=(Checkpoint&&) = default;

  const std::string& directory() const { return directory_; }
  const Json& config() const { return config_; }  // the whole of config.json
  bool has_index() const { return has_index_; }
  const std::vector<Shard>& shards() const { return shards_; }     // sorted by name
  const std::vector<Tensor>& tensors() const { return tensors_; }  // sorted by (shard, offset)
  const Tensor* find(std::string_view name) const;                 // null: no such tensor
  const std::string& shard_path(const Tensor& tensor) const { return shards_[tensor.shard].path; }

 private:
  Checkpoint() = default;
  std::string directory_;
  Json config_;
  bool has_index_ = false;
  std::vector<Shard> shards_;
  std::vector<Tensor> tensors_;
  std::unordered_map<std::string_view, std::uint32_t> by_name_;
};

inline constexpr std::string_view kConfigName = "config.json";
inline constexpr std::string_view kIndexName = "model.safetensors.index.json";

// config.json may nest what describes the language model in "text_config": the value of `key` from there or
// from the top; null where absent.
const Json& config_value(const Json& config, std::string_view key);

}  // namespace planesmith
