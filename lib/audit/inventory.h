// What a checkpoint's files hold, read without giving up at the first fault.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "audit/audit.h"
#include "checkpoint/safetensors.h"

namespace planesmith {

// Things of one kind: how many there are, and the first by name.
struct Several {
  std::uint64_t count = 0;
  std::string first;
  void add(const std::string& name) {
    if (count++ == 0 || name < first) first = name;
  }
  explicit operator bool() const { return count != 0; }
};

struct Inventory {
  std::string directory;
  Json config;        // an empty object where it is missing or unreadable
  Json quantization;  // quantization_config, wherever it is nested; or empty
  Json modelopt;      // "quantization" of hf_quant_config.json, where modelopt left one; or empty
  std::vector<std::string> shards;  // those that could be read; Tensor::shard is an index into them
  std::map<std::string, Tensor, std::less<>> tensors;

  std::string path(const std::string& name) const { return directory + "/" + name; }
  const Tensor* find(std::string_view name) const {
    const auto it = tensors.find(name);
    return it == tensors.end() ? nullptr : &it->second;
  }
  std::string shard_path(const Tensor& tensor) const { return path(shards[tensor.shard]); }
  std::uint64_t layers() const;  // num_hidden_layers; 0 where unknown
};

// Adds findings about config, index and shards.
Inventory take_inventory(const Context& context, const std::string& directory,
                         std::vector<Finding>& findings);

// Whether a quantizer wrote the tensor: 8-bit or 4-bit floats, or (packed) integers.
bool quantized(const Tensor& tensor);

// Tensor names without their last component ("... .weight") where they have several, each once, sorted.
std::vector<std::string> modules_of(const Inventory& inventory);

}  // namespace planesmith
