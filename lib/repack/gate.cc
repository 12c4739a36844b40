#include "repack/gate.h"

#include <fmt/format.h>
#include <string.h>

#include <algorithm>
#include <mutex>
#include <tuple>

#include "base/error.h"
#include "base/parallel.h"
#include "manifest/profile.h"
#include "repack/repack_run.h"

namespace planesmith {
namespace {

// Does to a piece what `build` would, as if the piece were a whole group.
void repack(const Remapper& remapper, Bytes piece, std::uint64_t row_bytes) {
  if (!remapper.by_group()) {
    remapper.remap_rows(piece, row_bytes);
    return;
  }
  Counts counts{};
  remapper.count(piece, counts);
  remapper.apply(remapper.choose(counts), piece);
}

// Names the tensors and keeps only the first difference of each tensor in each granularity.
void keep_first(const Checkpoint& checkpoint, std::vector<GateResult::Difference>& differences) {
  for (GateResult::Difference& difference : differences)
    for (const Tensor& tensor : checkpoint.tensors())
      if (checkpoint.shards()[tensor.shard].name == difference.file && tensor.offset <= difference.offset &&
          difference.offset < tensor.offset + tensor.size)
        difference.tensor = tensor.name;
  const auto key = [](const auto& d) { return std::tie(d.file, d.tensor, d.granularity); };
  std::sort(differences.begin(), differences.end(), [&](const auto& a, const auto& b) {
    return std::tuple(key(a), a.offset) < std::tuple(key(b), b.offset);
  });
  differences.erase(std::unique(differences.begin(), differences.end(),
                                [&](const auto& a, const auto& b) { return key(a) == key(b); }),
                    differences.end());
  std::sort(differences.begin(), differences.end(), [](const auto& a, const auto& b) {
    return std::tie(a.file, a.offset, a.granularity) < std::tie(b.file, b.offset, b.granularity);
  });
}

}  // namespace

GateResult gate(const Context& context, const std::string& source, const std::vector<std::string>& files,
                const Kernels& kernels) {
  const Checkpoint checkpoint = Checkpoint::open(context, source);
  const Model model = find_experts(checkpoint);
  say_profile(context, model.geometry);
  const RepackMemory memory = share_memory(context, Granularity::row, model.geometry);
  // With 16 levels the extent of a group makes no difference, so every granularity is tried on the same
  // pieces.
  const std::vector<RepackFile> plan =
      plan_repack(checkpoint, model, Granularity::row, memory.buffer / 2, {});

  GateResult result;
  std::vector<std::pair<const RepackFile*, const RepackTask*>> items;
  std::uint64_t bytes = 0;
  for (const std::string& name : files)
    if (std::none_of(plan.begin(), plan.end(), [&](const RepackFile& file) { return file.name == name; }))
      throw Error(ErrorCode::usage, join(source, name),
                  "is not a shard with expert weights of this checkpoint");
  for (const RepackFile& file : plan) {
    if (!files.empty() && std::find(files.begin(), files.end(), file.name) == files.end()) continue;
    result.files.push_back({file.name, file.tensors, file.weight_bytes});
    bytes += file.weight_bytes;
    for (const RepackTask& task : file.tasks)
      if (task.kind == RepackTask::Kind::rows) items.emplace_back(&file, &task);
  }
  std::vector<Remapper> remappers;
  for (const Granularity granularity : kGranularities)
    remappers.emplace_back(granularity, kMaxLevels, kernels);

  std::mutex mutex;
  context.progress.begin("gate", bytes);
  parallel_for(items.size(), memory.workers, [&](std::size_t i, int) {
    context.check_stop();
    const auto& [file, task] = items[i];
    const RepackRange& range = task->ranges.front();
    std::vector<std::uint8_t> original(range.size), repacked(range.size);
    File::open_read(context.os, join(source, file->name)).read(original, range.offset);
    for (const Granularity granularity : kGranularities) {
      repacked = original;
      repack(remappers[static_cast<std::size_t>(granularity)], repacked, task->row_bytes);
      if (memcmp(original.data(), repacked.data(), range.size) == 0) continue;
      const auto at = std::mismatch(original.begin(), original.end(), repacked.begin());
      const std::lock_guard<std::mutex> lock(mutex);
      result.differences.push_back({file->name, "",
                                    range.offset + static_cast<std::uint64_t>(at.first - original.begin()),
                                    granularity, *at.first, *at.second});
    }
    context.progress.advance(range.size);
  });
  context.progress.end();
  checkpoint.refuse_changed(context.os);
  keep_first(checkpoint, result.differences);
  return result;
}

}  // namespace planesmith
