#include "checkpoint/checkpoint.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>

#include "base/error.h"
#include "base/parallel.h"
#include "checkpoint/index.h"
#include "checkpoint/recipe.h"

namespace planesmith {
namespace {

constexpr std::uint64_t kMaxConfigBytes = 16 * kMiB;  // real ones have some KiB

Json read_config(Os& os, const std::string& directory) {
  if (!exists(os, directory)) throw Error(directory, "there is no such directory");
  if (!S_ISDIR(status(os, directory).st_mode))
    throw Error(directory, "is not a directory; give the directory that holds the checkpoint");
  const std::string path = join(directory, kConfigName);
  if (!exists(os, path))
    throw Error(path, "is missing; give a checkpoint directory as downloaded, config.json included" +
                          checkpoints_below(os, directory, "; "));
  Json config = read_python_json(os, path, kMaxConfigBytes);
  if (!config.is_object()) throw Error(path, "is not a JSON object");
  const std::string modelopt = join(directory, kModeloptConfig);
  if (config_value(config, "quantization_config").is_null() && exists(os, modelopt))
    if (const Json file = read_json(os, modelopt); file.is_object() && file.contains("quantization"))
      return with_modelopt(std::move(config), file["quantization"]);
  return config;
}

void require_same(Os& os, const Shard& shard) {
  if (!exists(os, shard.path) || stamp_of(status(os, shard.path)) != shard.stamp)
    throw Error(
        shard.path,
        "changed since the start of this run (size, time or inode differ); leave the checkpoint alone "
        "while it is read, and run this again");
}

}  // namespace

Checkpoint Checkpoint::open(const Context& context, const std::string& directory) {
  Checkpoint checkpoint;
  checkpoint.directory_ = directory;
  checkpoint.config_ = read_config(context.os, directory);

  CheckpointFiles files = checkpoint_files(context.os, directory);
  checkpoint.has_index_ = files.index.has_value();
  const CheckpointIndex none, &index = files.index ? *files.index : none;

  std::vector<Shard>& shards = checkpoint.shards_;
  for (const std::string& name : files.shards) shards.push_back({name, join(directory, name), 0, 0, {}});

  std::vector<std::vector<Tensor>> found(shards.size()), elsewhere(shards.size());
  // An entry belongs to one shard, so no two threads write one element.
  std::vector<char> seen(index.entries.size());
  std::atomic<std::uint64_t> unlisted = 0;
  parallel_for(shards.size(), context.threads, [&](std::size_t number, int) {
    context.check_stop();
    Shard& shard = shards[number];
    shard.stamp = stamp_of(status(context.os, shard.path));
    SafetensorsHeader header = read_safetensors_header(File::open_read(context.os, shard.path));
    require_same(context.os, shard);
    shard.file_bytes = header.file_bytes;
    shard.header_bytes = header.header_bytes;
    for (Tensor& tensor : header.tensors) {
      tensor.shard = static_cast<std::uint32_t>(number);
      const CheckpointIndex::Entry* entry = index.find(tensor.name);
      if (entry != nullptr && entry->shard != number) {
        elsewhere[number].push_back(std::move(tensor));
        continue;
      }
      if (entry != nullptr)
        seen[static_cast<std::size_t>(entry - index.entries.data())] = 1;
      else if (files.index)
        ++unlisted;
      found[number].push_back(std::move(tensor));
    }
  });

  // Where the shard that the index names lacks a tensor, the shard that has it counts.
  std::uint64_t moved = 0;
  for (std::size_t number = 0; number < shards.size(); ++number)
    for (Tensor& tensor : elsewhere[number]) {
      const CheckpointIndex::Entry* entry = index.find(tensor.name);
      char& has = seen[static_cast<std::size_t>(entry - index.entries.data())];
      if (has == 1) continue;
      if (has == 2)
        throw Error(shards[number].path,
                    fmt::format("is also in another shard, and neither is '{}', which {} names",
                                shards[entry->shard].name, kIndexName))
            .in_tensor(tensor.name)
            .at(tensor.described_at);
      has = 2;
      ++moved;
      std::vector<Tensor>& here = found[number];
      here.insert(std::upper_bound(here.begin(), here.end(), tensor.offset,
                                   [](std::uint64_t at, const Tensor& other) { return at < other.offset; }),
                  std::move(tensor));
    }
  for (std::size_t i = 0; i < seen.size(); ++i)
    if (seen[i] == 0) checkpoint.absent_.push_back(index.entries[i].tensor);
  const auto note = [&](std::uint64_t count, std::string_view what) {
    if (count != 0) files.notes.push_back(fmt::format("{} {}", count, what));
  };
  note(unlisted, fmt::format("tensors are in shards that {} lists but not in the index itself; they are used",
                             kIndexName));
  note(moved, fmt::format("tensors are in another shard than {} says; they are used", kIndexName));
  if (!checkpoint.absent_.empty())
    note(checkpoint.absent_.size(),
         fmt::format("tensors that {} lists are in no shard, the first is '{}'; work that needs one fails",
                     kIndexName, checkpoint.absent_.front()));
  for (const std::string& text : files.notes) context.progress.say(fmt::format("{}: {}", directory, text));

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

FileStamp stamp_of(const struct stat& status) {
  return {status.st_dev, status.st_ino, static_cast<std::uint64_t>(status.st_size),
          status.st_mtim.tv_sec * std::int64_t{1'000'000'000} + status.st_mtim.tv_nsec};
}

void Checkpoint::refuse_changed(Os& os) const {
  for (const Shard& shard : shards_) require_same(os, shard);
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
