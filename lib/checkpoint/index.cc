#include "checkpoint/index.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "base/error.h"
#include "base/json_stream.h"

namespace planesmith {
namespace {

bool stays_inside(std::string_view name) {
  if (name.empty() || name.front() == '/' || name.find('\0') != name.npos) return false;
  while (!name.empty()) {
    const std::size_t slash = std::min(name.find('/'), name.size());
    if (name.substr(0, slash) == "..") return false;
    name.remove_prefix(std::min(slash + 1, name.size()));
  }
  return true;
}

class IndexVisitor final : public JsonVisitor {
 public:
  bool found = false;
  std::map<std::string, std::uint32_t, std::less<>> shards;  // name -> number, in order of appearance
  std::vector<CheckpointIndex::Entry> entries;

  void key(std::string& name) override {
    if (depth() == 1) {
      in_map_ = name == "weight_map";
      if (in_map_ && found) throw error("\"weight_map\" appears twice");
      found |= in_map_;
    } else if (depth() == 2 && in_map_) {
      entries.push_back({std::move(name), 0});
    }
  }

  void text(std::string& value) override {
    if (depth() != 2 || !in_map_) return other("a string");
    if (!stays_inside(value))
      throw error(
          fmt::format("shard name '{}' leaves the checkpoint's directory; only names inside it are accepted",
                      value))
          .in_tensor(entries.back().tensor);
    entries.back().shard =
        shards.try_emplace(std::move(value), static_cast<std::uint32_t>(shards.size())).first->second;
  }

  void number(std::uint64_t) override { other("a number"); }
  void open(char bracket) override {
    if (depth() == 1 && bracket == '{') return;
    if (depth() != 0 || bracket != '{') other(bracket == '{' ? "an object" : "an array");
  }
  void close() override {}
  void other(std::string_view kind) override {
    if (depth() == 0) throw error(fmt::format("is {}; a JSON object was expected", kind));
    if (depth() == 1 && in_map_)
      throw error(fmt::format("\"weight_map\" is {}; an object was expected", kind));
    if (depth() == 2 && in_map_)
      throw error(fmt::format("shard name is {}; a string was expected", kind))
          .in_tensor(entries.back().tensor);
  }

 private:
  bool in_map_ = false;
};

}  // namespace

const CheckpointIndex::Entry* CheckpointIndex::find(std::string_view tensor) const {
  const auto at =
      std::lower_bound(entries.begin(), entries.end(), tensor,
                       [](const Entry& entry, std::string_view name) { return entry.tensor < name; });
  return at != entries.end() && at->tensor == tensor ? &*at : nullptr;
}

CheckpointIndex read_checkpoint_index(const File& file) {
  IndexVisitor visitor;
  visit_json(file, 0, file.size(), visitor);
  if (!visitor.found) throw Error(file.path(), "has no \"weight_map\"; is this a safetensors index?");
  if (visitor.entries.empty()) throw Error(file.path(), "\"weight_map\" lists no tensor");

  CheckpointIndex index;
  index.entries = std::move(visitor.entries);
  std::vector<std::uint32_t> sorted(visitor.shards.size());  // number of appearance -> sorted position
  for (auto& [name, number] : visitor.shards) {
    sorted[number] = static_cast<std::uint32_t>(index.shards.size());
    index.shards.push_back(name);
  }
  for (CheckpointIndex::Entry& entry : index.entries) entry.shard = sorted[entry.shard];
  std::sort(index.entries.begin(), index.entries.end(),
            [](const auto& a, const auto& b) { return a.tensor < b.tensor; });
  const auto twice = std::adjacent_find(index.entries.begin(), index.entries.end(),
                                        [](const auto& a, const auto& b) { return a.tensor == b.tensor; });
  if (twice != index.entries.end()) throw Error(file.path(), "is listed twice").in_tensor(twice->tensor);
  return index;
}

}  // namespace planesmith
