#include "checkpoint/files.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "base/error.h"
#include "base/file.h"
#include "base/text.h"

namespace planesmith {
namespace {

constexpr std::string_view kShardSuffix = ".safetensors", kBinSuffix = ".bin",
                           kLoneShard = "model.safetensors";

std::vector<std::string> files_ending_in(Os& os, const std::string& directory, std::string_view suffix) {
  std::vector<std::string> names;
  for (std::string& name : list_dir(os, directory))
    if (name.ends_with(suffix) && !S_ISDIR(status(os, join(directory, name)).st_mode))
      names.push_back(std::move(name));
  return names;
}

constexpr std::size_t kMostDirectories = 1000;  // of a level of a tree that is searched

// Empty where they cannot be listed.
std::vector<std::string> directories_in(Os& os, const std::string& parent) {
  std::vector<std::string> paths;
  try {
    for (const std::string& name : list_dir(os, parent)) {
      std::string path = parent == "." ? name : join(parent, name);
      if (exists(os, path) && S_ISDIR(status(os, path).st_mode)) paths.push_back(std::move(path));
    }
  } catch (const Error&) {
    paths.clear();
  }
  return paths;
}

// A config.json alone is also below checkpoints, of tokenizers or inference code.
bool looks_like_checkpoint(Os& os, const std::string& directory) {
  try {
    return exists(os, join(directory, kConfigName)) &&
           (exists(os, join(directory, kIndexName)) || !files_ending_in(os, directory, kShardSuffix).empty());
  } catch (const Error&) {
    return false;
  }
}

// Names with a leading dot are not shards (editors, archives). The content id covers them nevertheless: the
// engine's own identity does (FORMAT.md section 8), and published ids must not change.
std::vector<std::string> visible(std::vector<std::string> names) {
  std::erase_if(names, [](const std::string& name) { return name.front() == '.'; });
  return names;
}

std::optional<std::string> first_missing(Os& os, const std::string& directory,
                                         const std::vector<std::string>& names) {
  for (const std::string& name : names)
    if (!exists(os, join(directory, name))) return name;
  return std::nullopt;
}

Error missing(const std::string& path, std::string_view index) {
  return Error(path, fmt::format("is listed in {} but missing; is the download complete?", index));
}

}  // namespace

CheckpointFiles checkpoint_files(Os& os, const std::string& directory) {
  CheckpointFiles out;
  const std::string index_path = join(directory, kIndexName);
  if (!exists(os, index_path)) {
    out.shards = visible(files_ending_in(os, directory, kShardSuffix));
    if (out.shards.empty())
      throw Error(directory, fmt::format("has neither {} nor a *{} file", kIndexName, kShardSuffix));
    return out;
  }
  out.index = read_checkpoint_index(File::open_read(os, index_path));
  out.shards = out.index->shards;
  const std::optional<std::string> absent = first_missing(os, directory, out.shards);
  if (!absent) return out;
  const bool lists_lone = std::binary_search(out.shards.begin(), out.shards.end(), kLoneShard);
  if (lists_lone || !exists(os, join(directory, kLoneShard)))
    throw missing(join(directory, *absent), kIndexName);
  out.notes.push_back(fmt::format("{} lists '{}' and perhaps more that is missing; {} is used instead",
                                  kIndexName, *absent, kLoneShard));
  out.shards = {std::string(kLoneShard)};
  out.index.reset();
  return out;
}

std::vector<std::string> content_files(Os& os, const std::string& directory) {
  std::set<std::string> names;
  const bool has_index = exists(os, join(directory, kIndexName));
  const std::vector<std::string> safetensors = files_ending_in(os, directory, kShardSuffix);
  if (has_index)
    for (std::string& name : checkpoint_files(os, directory).shards) names.insert(std::move(name));
  if (const std::string path = join(directory, kBinIndexName); exists(os, path)) {
    const std::vector<std::string> listed = read_checkpoint_index(File::open_read(os, path)).shards;
    const std::optional<std::string> absent = first_missing(os, directory, listed);
    if (!absent)
      names.insert(listed.begin(), listed.end());
    else if (safetensors.empty())
      throw missing(join(directory, *absent), kBinIndexName);
    else if (!has_index)  // left over from another form of the model
      names.insert(safetensors.begin(), safetensors.end());
  } else if (!has_index) {
    names.insert(safetensors.begin(), safetensors.end());
    for (std::string& name : files_ending_in(os, directory, kBinSuffix)) names.insert(std::move(name));
  }
  return {names.begin(), names.end()};
}

std::string checkpoints_below(Os& os, const std::string& directory, std::string_view before) {
  constexpr std::size_t kLevels = 3;  // models--a--b/snapshots/0123
  std::vector<std::string> level = {directory}, found;
  for (std::size_t depth = 0; depth < kLevels && found.size() < 2; ++depth) {
    std::vector<std::string> below;
    for (const std::string& parent : level)
      for (std::string& child : directories_in(os, parent))
        (looks_like_checkpoint(os, child) ? found : below).push_back(std::move(child));
    if (below.size() > kMostDirectories) below.clear();
    level = std::move(below);
  }
  if (found.empty()) return "";
  return fmt::format("{}{} {}", before, shell_quoted(found.front()),
                     found.size() == 1 ? "is one" : "and others are");
}

}  // namespace planesmith
