#include "audit/inventory.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "base/error.h"
#include "base/file.h"
#include "checkpoint/checkpoint.h"
#include "checkpoint/index.h"

namespace planesmith {
namespace {


Json read_config(const Context& context, const std::string& folder, std::vector<Finding>& findings) {
  const std::string path = join(folder, "config.json");
  try {
    if (exists(context.os, path)) return read_json(context.os, path);
    findings.push_back({"config.missing", Severity::error, "config.json is missing", "no tool can tell what the model is",
                        "copy it from the model's repository"});
  } catch (const Error& error) {
    findings.push_back({"config.unreadable", Severity::error, error.what(), "no tool can tell what the model is",
                        "copy it from the model's repository"});
  }
  return Json::object();
}

void check_total_size(const Context& context, const Inventory& inventory, std::vector<Finding>& findings) {
  const std::string path = inventory.path(std::string(kIndexName));
  const Json index = read_json(context.os, path, std::uint64_t{1} << 30);
  const auto metadata = index.find("metadata");
  if (metadata == index.end() || !metadata->is_object() || !metadata->contains("total_size")) return;
  std::uint64_t total = 0;
  for (const auto& [name, tensor] : inventory.tensors) total += tensor.size;
  const Json& claimed = (*metadata)["total_size"];
  if (claimed != total)
    findings.push_back({"index.total-size", Severity::warning,
                        fmt::format("the index says {} bytes of tensors, the shards hold {}", claimed.dump(), total),
                        "loaders plan memory by it, and it shows that index and shards are of different origin",
                        "write the index again from the shards"});
}

void compare_with_index(const CheckpointIndex& index, const Inventory& inventory, std::vector<Finding>& findings) {
  std::uint64_t absent = 0, elsewhere = 0, unlisted = 0;
  std::string first_absent, first_elsewhere, first_unlisted;
  for (const CheckpointIndex::Entry& entry : index.entries) {
    const Tensor* tensor = inventory.find(entry.tensor);
    const std::string& shard = index.shards[entry.shard];
    const bool readable = std::find(inventory.shards.begin(), inventory.shards.end(), shard) != inventory.shards.end();
    if (tensor == nullptr) {
      if (readable && absent++ == 0) first_absent = entry.tensor;
    } else if (inventory.shards[tensor->shard] != shard && elsewhere++ == 0) {
      first_elsewhere = entry.tensor;
    }
  }
  for (const auto& [name, tensor] : inventory.tensors)
    if (index.find(name) == nullptr && unlisted++ == 0) first_unlisted = name;
  if (absent != 0)
    findings.push_back({"index.absent", Severity::error,
                        fmt::format("{} indexed tensors are in no shard, the first is '{}'", absent, first_absent),
                        "loading fails, or leaves the weights as they were initialized",
                        "download the shards again, or write the index again"});
  if (elsewhere != 0)
    findings.push_back({"index.elsewhere", Severity::error,
                        fmt::format("{} tensors are in another shard than the index says, the first is '{}'", elsewhere,
                                    first_elsewhere),
                        "loaders look where the index points", "write the index again"});
  if (unlisted != 0)
    findings.push_back({"index.unlisted", Severity::warning,
                        fmt::format("{} tensors in the shards are not in the index, the first is '{}'", unlisted,
                                    first_unlisted),
                        "loaders that go by the index never see them", "write the index again, or drop the tensors"});
}

}  // namespace

std::uint64_t Inventory::layers() const {
  const Json& value = config_value(config, "num_hidden_layers");
  return value.is_number_unsigned() ? value.get<std::uint64_t>() : 0;
}

Inventory take_inventory(const Context& context, const std::string& folder, std::vector<Finding>& findings) {
  Inventory out;
  out.folder = folder;
  out.config = read_config(context, folder, findings);
  if (!out.config.is_object()) out.config = Json::object();
  out.quantization = config_value(out.config, "quantization_config");
  if (!out.quantization.is_object()) out.quantization = Json::object();

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
  for (const std::string& name : list_dir(context.os, folder))
    if (name.ends_with(".safetensors") && names.insert(name).second && index)
      findings.push_back({"index.extra-shard", Severity::warning, fmt::format("'{}' is not in the index", name),
                          "loaders that take every shard in the folder see other tensors than those that go by the index",
                          "remove the file, or write the index again"});
  if (names.empty())
    findings.push_back({"shards.none", Severity::error, "the folder has no safetensors shards", "there is nothing to convert",
                        "give the folder that the shards were downloaded to"});

  for (const std::string& name : names) {
    context.check_stop();
    try {
      SafetensorsHeader header = read_safetensors_header(File::open_read(context.os, out.path(name)));
      for (Tensor& tensor : header.tensors) {
        tensor.shard = static_cast<std::uint32_t>(out.shards.size());
        const auto [at, added] = out.tensors.emplace(tensor.name, tensor);
        if (!added)
          findings.push_back({"shards.twice", Severity::error,
                              fmt::format("tensor '{}' is in '{}' and in '{}'", tensor.name, out.shards[at->second.shard], name),
                              "which of them is loaded depends on the loader", "drop one of them"});
      }
      out.shards.push_back(name);
    } catch (const Error& error) {
      findings.push_back({"shards.unreadable", Severity::error, error.what(), "its tensors cannot be loaded",
                          "download the shard again"});
    }
  }
  if (index) {
    compare_with_index(*index, out, findings);
    check_total_size(context, out, findings);
  }
  return out;
}

std::vector<std::string> modules_of(const Inventory& inventory) {
  std::vector<std::string> out;
  for (const auto& [name, tensor] : inventory.tensors) {
    const std::size_t dot = name.find_last_of('.');
    if (dot != std::string::npos) out.push_back(name.substr(0, dot));
  }
  std::sort(out.begin(), out.end());
  out.erase(std::unique(out.begin(), out.end()), out.end());
  return out;
}

}  // namespace planesmith
