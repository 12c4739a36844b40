// Which files a checkpoint consists of, also where an index does not match the files.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/os.h"
#include "checkpoint/index.h"

namespace planesmith {

inline constexpr std::string_view kConfigName = "config.json";
inline constexpr std::string_view kIndexName = "model.safetensors.index.json";
inline constexpr std::string_view kBinIndexName = "pytorch_model.bin.index.json";

struct CheckpointFiles {
  std::vector<std::string> shards;       // safetensors, sorted, relative to the directory
  std::optional<CheckpointIndex> index;  // none: missing, or of another set of files
  std::vector<std::string> notes;        // what does not match, a sentence each
};

// With an index, the shards that it lists; if some are missing and a model.safetensors that it does not list
// is there, that file alone. Without one, every *.safetensors of the directory whose name does not begin with
// a dot. Errors: no such file; a listed shard that is missing.
CheckpointFiles checkpoint_files(Os& os, const std::string& directory);

// The weight files that the content id covers, sorted: checkpoint_files() with an index; those that a
// pytorch_model.bin.index.json lists if all are there; without any index every *.safetensors and *.bin, those
// with a leading dot included. May be empty. Error: a listed shard is missing.
std::vector<std::string> content_files(Os& os, const std::string& directory);

// For messages about a directory that is not a checkpoint, like the root of a Hugging Face cache: "PATH is
// one", "PATH and others are", after `before`, where directories up to three levels below it have a
// config.json and shards; else empty.
std::string checkpoints_below(Os& os, const std::string& directory, std::string_view before);

}  // namespace planesmith
