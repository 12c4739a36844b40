#include "checkpoint/checkpoint.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"
#include "base/parallel.h"
#include "checkpoint/index.h"

namespace planesmith {
namespace {

constexpr std::string_view kShardSuffix = ".safetensors";
constexpr std::uint64_t kMaxConfigBytes = 16 * kMiB;  // real ones have some KiB

// What a directory without an index consists of. Names with a leading dot are not the checkpoint's (editors,
// archives).
std::vector<std::string> safetensors_in(Os& os, const std::string& directory) {
  std::vector<std::string> names;
  for (std::string& name : list_dir(os, directory))
    if (name.ends_with(kShardSuffix) && name.front() != '.') names.push_back(std::move(name));
  if (names.empty())
    throw Error(directory, fmt::format("has neither {} nor a *{} file", kIndexName, kShardSuffix));
  return names;
}

Json read_config(Os& os, const std::string& directory) {
  if (!exists(os, directory)) throw Error(directory, "there is no such directory");
  if (!S_ISDIR(status(os, directory).st_mode))
    throw Error(directory, "is not a directory; give the directory that holds the checkpoint");
  const std::string path = join(directory, kConfigName);
  if (!exists(os, path))
    throw Error(path, "is missing; give a checkpoint directory as downloaded, config.json included");
  Json config = read_json(os, path, kMaxConfigBytes);
  if (!config.is_object()) throw Error(path, "is not a JSON object");
  return config;
}

}  // namespace

Checkpoint Checkpoint::open(const Context& context, const std::string& directory) {
  Checkpoint checkpoint;
  checkpoint.directory_ = directory;
  checkpoint.config_ = read_config(context.os, directory);

  CheckpointIndex index;
  const std::string index_path = join(directory, kIndexName);
  checkpoint.has_index_ = exists(context.os, index_path);
  if (checkpoint.has_index_)
    index = read_checkpoint_index(File::open_read(context.os, index_path));
  else
    index.shards = safetensors_in(context.os, directory);

  std::vector<Shard>& shards = checkpoint.shards_;
  for (const std::string& name : index.shards) shards.push_back({name, join(directory, name)});

  std::vector<std::vector<Tensor>> found(shards.size());
  std::vector<char> seen(
      index.entries.size());  // an entry belongs to one shard: no two threads write one element
  parallel_for(shards.size(), context.threads, [&](std::size_t number, int) {
    context.check_stop();
    Shard& shard = shards[number];
    if (checkpoint.has_index_ && !exists(context.os, shard.path))
      throw Error(shard.path,
                  fmt::format("is listed in {} but missing; is the download complete?", kIndexName));
    SafetensorsHeader header = read_safetensors_header(File::open_read(context.os, shard.path));
    shard.file_bytes = header.file_bytes;
    shard.header_bytes = header.header_bytes;
    const auto unlisted = [&](const Tensor& tensor) {
      const CheckpointIndex::Entry* entry = index.find(tensor.name);
      if (entry == nullptr || entry->shard != number) return true;
      seen[static_cast<std::size_t>(entry - index.entries.data())] = 1;
      return false;
    };
    if (checkpoint.has_index_) std::erase_if(header.tensors, unlisted);
    for (Tensor& tensor : header.tensors) tensor.shard = static_cast<std::uint32_t>(number);
    found[number] = std::move(header.tensors);
  });

  const auto absent = std::find(seen.begin(), seen.end(), 0);
  if (absent != seen.end()) {
    const CheckpointIndex::Entry& entry = index.entries[static_cast<std::size_t>(absent - seen.begin())];
    const auto others = std::count(absent + 1, seen.end(), 0);
    const std::string more = others == 0 ? "" : fmt::format("; {} more are missing likewise", others);
    throw Error(shards[entry.shard].path,
                fmt::format("is not in this shard, although {} says so{}", kIndexName, more))
        .in_tensor(entry.tensor);
  }

  for (std::vector<Tensor>& tensors : found) {
    std::move(tensors.begin(), tensors.end(), std::back_inserter(checkpoint.tensors_));
    tensors = {};
  }
  checkpoint.by_name_.reserve(checkpoint.tensors_.size());
  for (std::uint32_t i = 0; i < checkpoint.tensors_.size(); ++i) {
    const Tensor& tensor = checkpoint.tensors_[i];
    const auto [first, inserted] = checkpoint.by_name_.try_emplace(tensor.name, i);
    if (!inserted)
      throw Error(shards[tensor.shard].path,
                  fmt::format("is in {} too, and no {} says which one counts",
                              shards[checkpoint.tensors_[first->second].shard].name, kIndexName))
          .in_tensor(tensor.name)
          .at(tensor.described_at);
  }
  return checkpoint;
}

const Tensor* Checkpoint::find(std::string_view name) const {
  const auto at = by_name_.find(name);
  return at == by_name_.end() ? nullptr : &tensors_[at->second];
}

const Json& config_value(const Json& config, std::string_view key) {
  static const Json absent;
  const auto member = [](const Json& object, std::string_view name) -> const Json& {
    if (!object.is_object()) return absent;
    const auto at = object.find(name);
    return at == object.end() ? absent : *at;
  };
  const Json& nested = member(member(config, "text_config"), key);
  return nested.is_null() ? member(config, key) : nested;
}

}  // namespace planesmith
