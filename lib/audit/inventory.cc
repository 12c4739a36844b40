#include "audit/inventory.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "base/error.h"
#include "base/file.h"
#include "base/lfs_pointer.h"
#include "checkpoint/checkpoint.h"
#include "checkpoint/index.h"
#include "checkpoint/recipe.h"

namespace planesmith {
namespace {

// The part of modelopt's own file that says what was quantized and what was left out.
Json read_modelopt(const Context& context, const std::string& directory, std::vector<Finding>& findings) {
  const std::string path = join(directory, kModeloptConfig);
  try {
    if (exists(context.os, path))
      if (const Json file = read_json(context.os, path);
          file.is_object() && file.contains("quantization") && file["quantization"].is_object())
        return file["quantization"];
  } catch (const Error& error) {
    findings.push_back({"config.unreadable", Severity::error, error.what(),
                        "loaders do not learn how the weights are quantized",
                        "copy it from the model's repository"});
  }
  return Json::object();
}

Json read_config(const Context& context, const std::string& directory, std::vector<Finding>& findings) {
  const std::string path = join(directory, "config.json");
  try {
    if (exists(context.os, path)) return read_python_json(context.os, path);
    findings.push_back({"config.missing", Severity::error, "config.json is missing",
                        "no tool can tell what the model is", "copy it from the model's repository"});
  } catch (const Error& error) {
    findings.push_back({"config.unreadable", Severity::error, error.what(),
                        "no tool can tell what the model is", "copy it from the model's repository"});
  }
  return Json::object();
}

void check_total_size(const Context& context, const Inventory& inventory, std::vector<Finding>& findings) {
  const std::string path = inventory.path(std::string(kIndexName));
  const Json index = read_json(context.os, path, context.memory / 5, context.memory / 5 * 2);
  const auto metadata = index.find("metadata");
  if (metadata == index.end() || !metadata->is_object() || !metadata->contains("total_size")) return;
  std::uint64_t total = 0;
  for (const auto& [name, tensor] : inventory.tensors) total += tensor.size;
  const Json& claimed = (*metadata)["total_size"];
  if (claimed != total)
    findings.push_back(
        {"index.total-size", Severity::warning,
         fmt::format("the index says {} bytes of tensors, the shards hold {}", claimed.dump(), total),
         "exporters count tensors before the last step that changes them (narrower scales, tied weights); "
         "where index and shards have no other finding, only this number is wrong",
         "repack-experts finish rewrites the index"});
}

void compare_with_index(const CheckpointIndex& index, const Inventory& inventory,
                        std::vector<Finding>& findings) {
  const std::set<std::string> readable(inventory.shards.begin(), inventory.shards.end());
  Several absent, elsewhere, unlisted;
  for (const CheckpointIndex::Entry& entry : index.entries) {
    const Tensor* tensor = inventory.find(entry.tensor);
    const std::string& shard = index.shards[entry.shard];
    if (tensor == nullptr) {
      if (readable.contains(shard)) absent.add(entry.tensor);
    } else if (inventory.shards[tensor->shard] != shard) {
      elsewhere.add(entry.tensor);
    }
  }
  for (const auto& [name, tensor] : inventory.tensors)
    if (index.find(name) == nullptr) unlisted.add(name);
  if (absent)
    findings.push_back(
        {"index.absent", Severity::error,
         fmt::format("{} indexed tensors are in no shard, the first is '{}'", absent.count, absent.first),
         "loading fails, or leaves the weights as they were initialized",
         "download the shards again, or write the index again"});
  if (elsewhere)
    findings.push_back({"index.elsewhere", Severity::error,
                        fmt::format("{} tensors are in another shard than the index says, the first is '{}'",
                                    elsewhere.count, elsewhere.first),
                        "loaders look where the index points", "write the index again"});
  if (unlisted)
    findings.push_back({"index.unlisted", Severity::warning,
                        fmt::format("{} tensors in the shards are not in the index, the first is '{}'",
                                    unlisted.count, unlisted.first),
                        "loaders that go by the index never see them",
                        "write the index again, or drop the tensors"});
}

// Adds a shard's tensors to the inventory, and those that another shard also has to `twice`.
void take_shard(const Context& context, const std::string& name, Inventory& out, Several& twice,
                Several& denied, std::vector<Finding>& findings) {
  const std::string path = out.path(name);
  try {
    if (!exists(context.os, path)) {
      findings.push_back({"shards.missing", Severity::error,
                          fmt::format("'{}' is in the index and not in the directory", name),
                          "its tensors cannot be loaded", "download the shard"});
      return;
    }
    const File file = File::open_read(context.os, path);
    if (is_lfs_pointer(file)) {
      findings.push_back({"shards.lfs-pointer", Severity::error,
                          fmt::format("'{}' is a git-LFS pointer, not the shard itself", name),
                          "its tensors were never downloaded",
                          "run git lfs pull in the repository, or download the shard"});
      return;
    }
    SafetensorsHeader header = read_safetensors_header(file);
    for (Tensor& tensor : header.tensors) {
      tensor.shard = static_cast<std::uint32_t>(out.shards.size());
      const auto [at, added] = out.tensors.emplace(tensor.name, tensor);
      if (!added)
        twice.add(fmt::format("{}' in '{}' and '{}", tensor.name, out.shards[at->second.shard], name));
    }
    out.shards.push_back(name);
  } catch (const Error& error) {
    if (error.label() == "permission") return denied.add(name);
    findings.push_back({"shards.unreadable", Severity::error, error.what(), "its tensors cannot be loaded",
                        "download the shard again"});
  }
}

}  // namespace

std::uint64_t Inventory::layers() const {
  const Json& value = config_value(config, "num_hidden_layers");
  return value.is_number_unsigned() ? value.get<std::uint64_t>() : 0;
}

Inventory take_inventory(const Context& context, const std::string& directory,
                         std::vector<Finding>& findings) {
  Inventory out;
  out.directory = directory;
  out.config = read_config(context, directory, findings);
  if (!out.config.is_object()) out.config = Json::object();
  out.quantization = config_value(out.config, "quantization_config");
  if (!out.quantization.is_object()) out.quantization = Json::object();
  out.modelopt = read_modelopt(context, directory, findings);

  std::set<std::string> names;
  std::optional<CheckpointIndex> index;
  const std::string index_path = out.path(std::string(kIndexName));
  if (exists(context.os, index_path)) {
    try {
      index = read_checkpoint_index(File::open_read(context.os, index_path));
      names.insert(index->shards.begin(), index->shards.end());
    } catch (const Error& error) {
      findings.push_back({"index.unreadable", Severity::error, error.what(), "loaders find no tensor",
                          "copy the index from the model's repository"});
    }
  }
  for (const std::string& name : list_dir(context.os, directory))
    if (name.ends_with(".safetensors") && names.insert(name).second && index)
      findings.push_back(
          {"index.extra-shard", Severity::warning, fmt::format("'{}' is not in the index", name),
           "loaders that take every shard in the directory see other tensors than those that go by the index",
           "remove the file, or write the index again"});
  if (names.empty())
    findings.push_back({"shards.none", Severity::error, "the directory has no safetensors shards",
                        "there is nothing to convert",
                        "give the directory that the shards were downloaded to" +
                            checkpoints_below(context.os, directory, "; ")});

  Several twice, denied;
  for (const std::string& name : names) {
    context.check_stop();
    take_shard(context, name, out, twice, denied, findings);
  }
  if (denied)
    findings.push_back(
        {"shards.permission", Severity::error,
         fmt::format("{} shards may not be read by this user, the first is '{}'", denied.count, denied.first),
         "their tensors were not checked",
         "give this user read permission (chmod, chown), or run as their owner"});
  if (twice)
    findings.push_back(
        {"shards.twice", Severity::error,
         fmt::format("{} tensors are in two shards, the first is '{}'", twice.count, twice.first),
         "which of them is loaded depends on the loader", "drop one of them"});
  if (index) {
    compare_with_index(*index, out, findings);
    if (out.shards.size() == names.size()) check_total_size(context, out, findings);
  }
  return out;
}

bool quantized(const Tensor& tensor) {
  switch (tensor.dtype) {
    case Dtype::f8_e4m3:
    case Dtype::f8_e5m2:
    case Dtype::i8:
    case Dtype::u8:
    case Dtype::f4:
      return true;
    default:
      return false;
  }
}

std::vector<std::string> modules_of(const Inventory& inventory) {
  std::vector<std::string> out;
  for (const auto& [name, tensor] : inventory.tensors) {
    out.push_back(name.substr(0, name.find_last_of('.')));
  }
  std::sort(out.begin(), out.end());
  out.erase(std::unique(out.begin(), out.end()), out.end());
  return out;
}

}  // namespace planesmith
