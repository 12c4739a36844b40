#include "repack/repack_plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "base/error.h"
#include "codebook/block_fit.h"

namespace planesmith {
namespace {

std::uint64_t row_bytes(Granularity granularity, const Tensor& weight) {
  return granularity == Granularity::block32 ? kBlockBytes : weight.shape.back();
}

void add_copies(RepackFile& file, std::uint32_t index, std::uint64_t begin, std::uint64_t end,
                std::uint64_t block) {
  for (; begin < end; begin += block) {
    RepackTask task;
    task.ranges = {{index, begin, std::min(block, end - begin)}};
    file.tasks.push_back(std::move(task));
  }
}

void add_rows(RepackFile& file, const RepackRange& weight, std::uint64_t row, std::uint64_t block) {
  const std::uint64_t step = std::max(block / row, std::uint64_t{1}) * row;
  for (std::uint64_t done = 0; done < weight.size; done += step) {
    RepackTask task;
    task.kind = RepackTask::Kind::rows;
    task.ranges = {{weight.file, weight.offset + done, std::min(step, weight.size - done)}};
    task.row_bytes = row;
    file.tasks.push_back(std::move(task));
  }
}

// One task for each file that has some of the group's tensors.
void add_groups(std::vector<RepackFile>& files, const std::vector<RepackRange>& group) {
  for (const RepackRange& first : group) {
    RepackTask task;
    task.kind = RepackTask::Kind::group;
    for (const RepackRange& range : group)
      (range.file == first.file ? task.ranges : task.elsewhere).push_back(range);
    if (task.ranges.front().offset == first.offset) files[first.file].tasks.push_back(std::move(task));
  }
}

// Adds copies of the bytes between the weights.
void fill_up(RepackFile& file, std::uint32_t index, std::vector<RepackRange> weights, std::uint64_t block) {
  std::sort(weights.begin(), weights.end(), [](const auto& a, const auto& b) { return a.offset < b.offset; });
  std::uint64_t end = 0;
  for (const RepackRange& weight : weights) {
    add_copies(file, index, end, weight.offset, block);
    end = weight.offset + weight.size;
  }
  add_copies(file, index, end, file.bytes, block);
  std::sort(file.tasks.begin(), file.tasks.end(), [](const RepackTask& a, const RepackTask& b) {
    return a.ranges.front().offset < b.ranges.front().offset;
  });
}

}  // namespace

std::uint64_t RepackTask::bytes() const {
  std::uint64_t sum = 0;
  for (const RepackRange& range : ranges) sum += range.size;
  return sum;
}

std::vector<RepackFile> plan_repack(const Checkpoint& checkpoint, const Model& model, Granularity granularity,
                                    std::uint64_t block, const std::vector<NamedSize>& copied) {
  if (traits(model.family).requantized)
    throw Error(checkpoint.directory(),
                fmt::format("is a checkpoint of the {} family; only MXFP4 weights can be repacked, since "
                            "those of other families become e2m1 codes only when they are requantized. "
                            "repack-experts analyze takes every family.",
                            name(model.family)));
  std::vector<RepackFile> files;
  std::map<std::uint32_t, std::uint32_t> file_of;  // shard -> file
  for (const SparseLayer& layer : model.layers)
    for (const Expert& expert : layer.experts)
      for (const ExpertTensors& tensors : expert) file_of.emplace(tensors.weight->shard, 0);
  for (auto& [shard, index] : file_of) {
    index = static_cast<std::uint32_t>(files.size());
    files.push_back({checkpoint.shards()[shard].name, checkpoint.shards()[shard].file_bytes, 0, 0, {}});
  }

  std::vector<std::vector<RepackRange>> weights(files.size());
  for (const SparseLayer& layer : model.layers)
    for (const Expert& expert : layer.experts) {
      std::vector<RepackRange> group;
      for (const ExpertTensors& tensors : expert) {
        const RepackRange range{file_of.at(tensors.weight->shard), tensors.weight->offset,
                                tensors.weight->size};
        RepackFile& file = files[range.file];
        ++file.tensors;
        file.weight_bytes += range.size;
        weights[range.file].push_back(range);
        if (granularity == Granularity::expert)
          group.push_back(range);
        else if (granularity <= Granularity::expert)
          add_groups(files, {range});
        else
          add_rows(file, range, row_bytes(granularity, *tensors.weight), block);
      }
      add_groups(files, group);
    }
  for (std::uint32_t i = 0; i < files.size(); ++i) fill_up(files[i], i, std::move(weights[i]), block);

  for (const NamedSize& other : copied) {
    files.push_back({other.name, other.bytes, 0, 0, {}});
    add_copies(files.back(), static_cast<std::uint32_t>(files.size() - 1), 0, other.bytes, block);
  }
  return files;
}

}  // namespace planesmith
