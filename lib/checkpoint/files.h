// Which files a checkpoint consists of, also where an index is out of step with what is there.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/os.h"
#include "checkpoint/index.h"

namespace planesmith {

inline constexpr std::string_view kConfigName = "config.json";
inline constexpr std::string_view kIndexName = "model.safetensors.index.json";
inline constexpr std::string_view kBinIndexName = "pytorch_model.bin.index.json";

struct CheckpointFiles {
  std::vector<std::string> shards;       // safetensors, sorted, relative to the directory
  std::optional<CheckpointIndex> index;  // none: there is none, or it is of another set of files
  std::vector<std::string> notes;        // what is out of step, a sentence each
};

// With an index, the shards that it lists; where some of them are missing and there is a model.safetensors
// that it does not list, that one alone. Without one, every *.safetensors of the directory whose name does
// not begin with a dot. Errors: no such file; a listed shard that is missing.
CheckpointFiles checkpoint_files(Os& os, const std::string& directory);

// The files with weights that the content id covers: those, and what a pytorch_model.bin.index.json lists
// where all of it is there. Errors: there is none; a listed shard that is missing.
std::vector<std::string> content_files(Os& os, const std::string& directory);

}  // namespace planesmith
