#include "rewrite/new_shards.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"
#include "base/json.h"

namespace planesmith {
namespace {

std::string_view text_of(const NewTensor& tensor) {
  return tensor.dtype == Dtype::other ? std::string_view(tensor.dtype_text) : name(tensor.dtype);
}

// Sorted as the safetensors library does it: wide elements first, which keeps all tensors aligned, then by
// name.
struct Item {
  const NewTensor* tensor;
  std::size_t work, number;
  auto key() const {
    return std::tuple(-static_cast<int>(bits(tensor->dtype)), std::string_view(tensor->name));
  }
};

void add_header(NewShard& shard) {
  std::vector<Item> items;
  for (std::size_t w = 0; w < shard.work.size(); ++w) {
    const std::vector<NewTensor>& makes = shard.work[w].job->makes();
    shard.work[w].offsets.resize(makes.size());
    for (std::size_t i = 0; i < makes.size(); ++i) items.push_back({&makes[i], w, i});
  }
  std::sort(items.begin(), items.end(), [](const Item& a, const Item& b) { return a.key() < b.key(); });

  std::string text = "{\"__metadata__\":{\"format\":\"pt\"}";
  std::uint64_t end = 0;
  for (const Item& item : items) {
    const std::uint64_t begin = end;
    end += size_of(*item.tensor);
    text += fmt::format(",{}:{{\"dtype\":{},\"shape\":[{}],\"data_offsets\":[{},{}]}}",
                        compact(Json(item.tensor->name)), compact(Json(text_of(*item.tensor))),
                        fmt::join(item.tensor->shape, ","), begin, end);
    shard.work[item.work].offsets[item.number] = begin;
  }
  text += '}';
  text.resize((text.size() + 7) / 8 * 8, ' ');
  const std::uint64_t length = text.size();
  for (int i = 0; i < 8; ++i) shard.header += static_cast<char>(length >> 8 * i);
  shard.header += text;
  for (NewShard::Work& work : shard.work)
    for (std::uint64_t& offset : work.offsets) offset += shard.header.size();
  shard.file.bytes = shard.header.size() + end;
}

std::uint64_t size_of(const Job& job) {
  std::uint64_t sum = 0;
  for (const NewTensor& tensor : job.makes()) sum += size_of(tensor);
  return sum;
}

}  // namespace

void NewShards::replace(const Tensor& tensor) {
  replaced_.insert(&tensor);
  groups_[checkpoint_.shards()[tensor.shard].name];
}

void NewShards::add(const std::string& shard, std::unique_ptr<Job> job) {
  made_ += job->makes().size();
  groups_[shard].push_back(std::move(job));
}

std::vector<std::string> NewShards::untouched() const {
  std::vector<std::string> names;
  for (const Shard& shard : checkpoint_.shards())
    if (!groups_.contains(shard.name)) names.push_back(shard.name);
  return names;
}

void NewShards::list(const std::string& tensor, const std::string& shard, std::uint64_t bytes) {
  if (const auto [at, added] = index_.emplace(tensor, shard); !added)
    throw Error(checkpoint_.directory(),
                fmt::format("the new checkpoint would have this tensor twice, in '{}' and in '{}'",
                            at->second, shard))
        .in_tensor(tensor);
  total_size_ += bytes;
}

std::vector<NewShard> NewShards::lay_out() {
  for (const Tensor& tensor : checkpoint_.tensors()) {
    const std::string& shard = checkpoint_.shards()[tensor.shard].name;
    const auto group = groups_.find(shard);
    if (group == groups_.end()) {
      list(tensor.name, shard, tensor.size);
    } else if (!replaced_.contains(&tensor)) {
      group->second.push_back(std::make_unique<CopyJob>(
          NewTensor{tensor.name, tensor.dtype, tensor.shape, tensor.dtype_text, tensor.size},
          place_of(checkpoint_, tensor)));
    }
  }
  std::vector<NewShard> shards;
  for (const auto& [name, jobs] : groups_)
    if (!jobs.empty()) lay_out(name, shards);
  return shards;
}

void NewShards::lay_out(const std::string& name, std::vector<NewShard>& out) {
  const std::size_t first = out.size();
  std::uint64_t filled = kMostShardBytes;
  for (const std::unique_ptr<Job>& job : groups_.at(name)) {
    const std::uint64_t bytes = size_of(*job);
    if (filled + bytes > kMostShardBytes || out.size() == first) {
      out.emplace_back();
      filled = 0;
    }
    filled += bytes;
    out.back().work.push_back({job.get(), {}});
    out.back().file.tensors += job->makes().size();
  }
  const std::size_t count = out.size() - first;
  for (std::size_t i = first; i < out.size(); ++i) {
    const std::size_t dot = name.rfind('.');
    out[i].file.name = count == 1 ? name
                                  : fmt::format("{}-{:05}-of-{:05}{}", name.substr(0, dot), i - first + 1,
                                                count, name.substr(dot));
    add_header(out[i]);
    for (const NewShard::Work& work : out[i].work)
      for (const NewTensor& tensor : work.job->makes()) list(tensor.name, out[i].file.name, size_of(tensor));
  }
}

}  // namespace planesmith
