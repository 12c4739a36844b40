#include "verify/sample.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <mutex>
#include <random>
#include <set>
#include <tuple>

#include "base/budget.h"
#include "base/error.h"
#include "base/parallel.h"
#include "base/text.h"
#include "pipeline/expert_source.h"
#include "quant/expert_converter.h"
#include "store/locate.h"
#include "verify/report.h"

namespace planesmith {
namespace {

// One section of one expert in a file.
struct Place {
  std::string section_name;
  format::Section section;
  std::uint64_t offset = 0, bytes = 0;
};

// A file that holds a layer: a part, or a pack.
struct Holder {
  std::string path, repair;
  std::uint64_t rank = 0;
  std::vector<Place> places;                  // of expert 0
  std::uint64_t stride = 0;                   // bytes from one expert to the next
  std::uint64_t padding_at = 0, padding = 0;  // zeros after the last section of a row
};

struct Task {
  const SparseLayer* layer;
  std::uint64_t expert;
};

class Comparison {
 public:
  Comparison(const Context& context, const Store& store, const BootVerdict& verdict,
             const Checkpoint& checkpoint, const Model& model)
      : context_(context),
        store_(store),
        verdict_(verdict),
        checkpoint_(checkpoint),
        model_(model),
        shape_(format::rank_shape(model.geometry, verdict.boot.world)),
        source_(context, checkpoint, model, shape_, verdict.boot.ranks.front(),
                verdict.boot.ranks.back() - verdict.boot.ranks.front() + 1) {
    for (const SparseLayer& layer : model.layers) holders_.push_back(holders_of(layer));
    for (std::size_t s = 0; s < format::kSections; ++s) {
      if (!wanted_[s]) continue;
      const std::uint64_t bytes = format::section_bytes(static_cast<format::Section>(s), shape_);
      output_bytes_ += bytes;
      largest_ = std::max(largest_, bytes);
    }
    largest_ = std::max(largest_, format::kRowAlignment);
  }

  SampleReport run(const SampleRequest& request) {
    const std::vector<Task> tasks = choose(request);
    const std::uint64_t each = source_.buffer_bytes() + output_bytes_ + largest_;
    const int workers = workers_within(context_.memory, 0, each, context_.threads);
    std::vector<std::unique_ptr<Worker>> all(static_cast<std::size_t>(workers));
    context_.progress.begin("compare with the checkpoint", tasks.size() * source_.buffer_bytes());
    parallel_for(tasks.size(), workers, [&](std::size_t i, int number) {
      context_.check_stop();
      std::unique_ptr<Worker>& worker = all[static_cast<std::size_t>(number)];
      if (!worker) worker = std::make_unique<Worker>(source_.buffer_bytes(), wanted_, shape_, largest_);
      compare(tasks[i], *worker);
      context_.progress.advance(source_.buffer_bytes());
    });
    context_.progress.end();
    report_.experts = tasks.size();
    report_.seed = request.seed;
    report_.differing = differing_;
    keep_first();
    return std::move(report_);
  }

 private:
  struct Worker {
    Worker(std::uint64_t input_bytes, const std::array<bool, format::kSections>& wanted,
           const format::RankShape& shape, std::uint64_t largest)
        : converter(choose_kernels("auto")), input(input_bytes), stored(largest) {
      for (std::size_t s = 0; s < format::kSections; ++s)
        if (wanted[s]) made[s].resize(format::section_bytes(static_cast<format::Section>(s), shape));
    }
    ExpertConverter converter;
    std::vector<std::uint8_t> input, stored;
    std::array<std::vector<std::uint8_t>, format::kSections> made;
  };

  // The command that builds one layer of an artifact again.
  std::string repair(const std::string& program, const std::string& rest, std::uint64_t rank,
                     std::uint64_t layer) const {
    const std::uint64_t drafts = model_.geometry.drafts;
    return fmt::format("{} {} {} --ckpt-id {} --world {} --rank {} --zero-mode {}{} --layers {} --force",
                       program, shell_quoted(real_path(checkpoint_.directory())), rest,
                       shell_quoted(verdict_.boot.ckpt_id), verdict_.boot.world, rank,
                       format::name(verdict_.boot.zero_mode),
                       drafts == 0 ? "" : fmt::format(" --drafts {}", drafts), layer);
  }

  std::vector<Holder> holders_of(const SparseLayer& layer) {
    std::vector<Holder> out;
    for (const CacheVerdict& cache : verdict_.caches) {
      if (!cache.miss.empty()) continue;
      const std::string command =
          repair("build-planescache",
                 fmt::format("--out {} --fp4 {}", shell_quoted(real_path(store_.root)),
                             format::name(verdict_.boot.fp4)),
                 cache.rank, layer.index);
      for (const LayerVerdict& verdict : cache.layers) {
        if (verdict.index != layer.index || !verdict.hit()) continue;
        const std::vector<format::Part> parts = format::cache_parts(verdict_.boot.fp4);
        for (std::size_t i = 0; i < parts.size(); ++i) {
          const std::uint64_t bytes = format::section_bytes(parts[i].section, shape_);
          out.push_back(
              {verdict.parts[i].path, command, cache.rank, {want(parts[i].section, 0)}, bytes, 0, 0});
        }
      }
    }
    for (const PackVerdict& pack : verdict_.packs) {
      const bool listed = std::any_of(
          pack.layers.begin(), pack.layers.end(),
          [&](const LayerVerdict& verdict) { return verdict.index == layer.index && verdict.hit(); });
      if (!listed) continue;
      const format::PackSpec spec = format::pack_spec(pack.tier, model_.geometry, shape_,
                                                      verdict_.boot.ckpt_id, verdict_.boot.zero_mode);
      Holder holder{
          pack.path,
          repair("build-fp4-packs",
                 fmt::format("--out {} --tiers {}", shell_quoted(real_path(store_.places.of(pack.rank))),
                             format::name(pack.tier)),
                 pack.rank, layer.index),
          pack.rank,
          {},
          spec.stride,
          0,
          spec.stride - spec.slot_bytes};
      std::uint64_t at = spec.row_offset(layer.key, 0);
      for (const format::Section section : format::slot_sections(pack.tier)) {
        holder.places.push_back(want(section, at));
        at += holder.places.back().bytes;
      }
      holder.padding_at = at;
      out.push_back(std::move(holder));
    }
    return out;
  }

  Place want(format::Section section, std::uint64_t offset) {
    wanted_[static_cast<std::size_t>(section)] = true;
    return {std::string(format::name(section)), section, offset, format::section_bytes(section, shape_)};
  }

  // Sorted by the position of the experts in the checkpoint.
  std::vector<Task> choose(const SampleRequest& request) const {
    std::vector<Task> tasks;
    for (const SparseLayer& layer : model_.layers)
      for (std::uint64_t expert = 0; expert < layer.experts.size(); ++expert)
        tasks.push_back({&layer, expert});
    if (request.count && *request.count < tasks.size()) {
      // The first steps of a shuffle; this generator gives the same sample on every machine.
      std::mt19937_64 random(request.seed);
      for (std::size_t i = 0; i < *request.count; ++i)
        std::swap(tasks[i], tasks[i + random() % (tasks.size() - i)]);
      tasks.resize(*request.count);
    }
    std::sort(tasks.begin(), tasks.end(), [](const Task& a, const Task& b) {
      const Tensor &x = *a.layer->experts[a.expert][0].weight, &y = *b.layer->experts[b.expert][0].weight;
      return std::tie(x.shard, x.offset) < std::tie(y.shard, y.offset);
    });
    return tasks;
  }

  void compare(const Task& task, Worker& worker) {
    const std::vector<Holder>& holders = holders_[task.layer->key];
    bool differs = false;
    const ExpertSource::Loaded loaded = source_.load(task.layer->experts[task.expert], worker.input);
    for (const std::uint64_t rank : verdict_.boot.ranks) {
      SectionTargets targets{};
      for (const Holder& holder : holders)
        if (holder.rank == rank)
          for (const Place& place : holder.places) {
            const auto s = static_cast<std::size_t>(place.section);
            targets[s] = worker.made[s].data();
          }
      if (std::all_of(targets.begin(), targets.end(), [](const std::uint8_t* at) { return at == nullptr; }))
        continue;
      if (const auto bad =
              worker.converter.convert(source_.slices(loaded, rank), verdict_.boot.zero_mode, targets))
        source_.refuse(*loaded.expert, rank, *bad);
      for (const Holder& holder : holders)
        if (holder.rank == rank) differs |= compare(task, holder, worker);
    }
    if (differs) ++differing_;
  }

  // Compares one expert in one file; true: weights or scales differ.
  bool compare(const Task& task, const Holder& holder, Worker& worker) {
    bool content_differs = false;
    const File file = File::open_read(context_.os, holder.path);
    const std::uint64_t row = task.expert * holder.stride;
    std::uint64_t bytes = holder.padding;
    for (const Place& place : holder.places) {
      bytes += place.bytes;
      const Bytes stored = Bytes(worker.stored).subspan(0, place.bytes);
      file.read(stored, row + place.offset);
      const std::vector<std::uint8_t>& made = worker.made[static_cast<std::size_t>(place.section)];
      const auto differs = std::mismatch(stored.begin(), stored.end(), made.begin()).first;
      if (differs == stored.end()) continue;
      content_differs = true;
      const Element element = first_difference(place.section, shape_, holder.rank, stored, made);
      const ExpertTensors& tensors =
          task.layer->experts[task.expert][static_cast<std::size_t>(element.projection)];
      // MXFP4 scales are copied; in other families they are computed from the weights.
      const bool taken = element.scale && !traits(model_.family).requantized;
      ContentDifference difference =
          at(task, holder, row + place.offset + static_cast<std::uint64_t>(differs - stored.begin()));
      difference.section = place.section_name;
      difference.tensor = (taken ? tensors.scale : tensors.weight)->name;
      difference.row = element.row;
      difference.col = taken ? element.col / model_.block_cols : element.col;
      difference.found = element.found;
      difference.expected = element.expected;
      add(std::move(difference));
    }
    if (holder.padding != 0) {
      const Bytes stored = Bytes(worker.stored).subspan(0, holder.padding);
      file.read(stored, row + holder.padding_at);
      const auto differs =
          std::find_if(stored.begin(), stored.end(), [](std::uint8_t byte) { return byte != 0; });
      if (differs != stored.end()) {
        ContentDifference difference =
            at(task, holder, row + holder.padding_at + static_cast<std::uint64_t>(differs - stored.begin()));
        difference.section = "padding";
        const std::uint64_t end = row + holder.padding_at + holder.padding;
        difference.repair =
            fmt::format("fallocate --punch-hole --offset {} --length {} {}", difference.offset,
                        end - difference.offset, shell_quoted(real_path(holder.path)));
        difference.found = fmt::format("{:#04x}", *differs);
        difference.expected = "0x00";
        add(std::move(difference));
      }
    }
    const std::lock_guard<std::mutex> lock(mutex_);
    report_.bytes += bytes;
    return content_differs;
  }

  static ContentDifference at(const Task& task, const Holder& holder, std::uint64_t offset) {
    ContentDifference out;
    out.path = holder.path;
    out.repair = holder.repair;
    out.offset = offset;
    out.layer = task.layer->index;
    out.expert = task.expert;
    out.rank = holder.rank;
    return out;
  }

  // Keeps memory bounded: only the first difference of each file and layer stays.
  void add(ContentDifference difference) {
    const std::lock_guard<std::mutex> lock(mutex_);
    for (ContentDifference& known : report_.differences)
      if (known.path == difference.path && known.layer == difference.layer) {
        if (difference.offset < known.offset) known = std::move(difference);
        return;
      }
    report_.differences.push_back(std::move(difference));
  }

  void keep_first() {
    std::sort(report_.differences.begin(), report_.differences.end(),
              [](const ContentDifference& a, const ContentDifference& b) {
                return std::tie(a.rank, a.layer, a.path) < std::tie(b.rank, b.layer, b.path);
              });
  }

  const Context& context_;
  const Store& store_;
  const BootVerdict& verdict_;
  const Checkpoint& checkpoint_;
  const Model& model_;
  const format::RankShape shape_;
  const ExpertSource source_;
  std::array<bool, format::kSections> wanted_{};
  std::vector<std::vector<Holder>> holders_;  // by layer key
  std::uint64_t output_bytes_ = 0, largest_ = 0;
  std::atomic<std::uint64_t> differing_{0};
  std::mutex mutex_;
  SampleReport report_;
};

}  // namespace

SampleReport compare_with_checkpoint(const Context& context, const Store& store, const BootVerdict& verdict,
                                     const Checkpoint& checkpoint, const Model& model,
                                     const SampleRequest& request) {
  return Comparison(context, store, verdict, checkpoint, model).run(request);
}

}  // namespace planesmith
