#include "pipeline/build.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <exception>
#include <map>
#include <mutex>
#include <set>
#include <tuple>

#include "base/budget.h"
#include "base/error.h"
#include "base/machine.h"
#include "base/parallel.h"
#include "base/paths.h"
#include "base/space.h"
#include "pipeline/expert_worker.h"
#include "pipeline/sinks.h"

namespace planesmith {
namespace {

// Approximate memory of each tensor of the checkpoint after reading the headers.
constexpr std::uint64_t kBytesPerTensor = 320;

bool any(const SectionSet& set) {
  return std::find(set.begin(), set.end(), true) != set.end();
}

// A layer in progress: its outputs are opened by the first expert and committed by the last.
class LayerJob {
 public:
  LayerJob(const SparseLayer& layer, std::vector<OpenOutput> outputs)
      : layer_(layer), outputs_(std::move(outputs)), left_(layer.experts.size()) {
    for (std::uint64_t e = 0; e < layer.experts.size(); ++e) experts_.push_back(e);
    std::sort(experts_.begin(), experts_.end(), [&](std::uint64_t a, std::uint64_t b) {
      const Tensor &x = *layer.experts[a][0].weight, &y = *layer.experts[b][0].weight;
      return std::tuple(x.shard, x.offset) < std::tuple(y.shard, y.offset);
    });
  }

  const SparseLayer& layer() const { return layer_; }
  // Numbers of the experts in their order in the shards.
  const std::vector<std::uint64_t>& experts() const { return experts_; }

  // The outputs, opened once; empty: other runs have them all.
  // If opening fails, threads that waited for it get the same error.
  const std::vector<OpenOutput>& open(const Context& context) {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (failure_) std::rethrow_exception(failure_);
    if (opened_) return outputs_;
    try {
      for (OpenOutput& each : outputs_) {
        each.output = each.sink->open_layer(layer_, each.missing);
        if (!each.output)
          context.progress.say(fmt::format("layer {}: another run has it in {}; left to that run",
                                           layer_.index, each.sink->describe()));
      }
    } catch (...) {
      failure_ = std::current_exception();
      throw;
    }
    std::erase_if(outputs_, [](const OpenOutput& each) { return !each.output; });
    opened_ = true;
    return outputs_;
  }

  // Called once for each expert; true: this was the last one, and the layer is committed. Errors: a shard has
  // changed since its header was read, so the identity is no longer right; devices that were asked for and
  // cannot be used, even if the CPU was done before they had started.
  bool finish_expert(const Context& context, const Checkpoint& checkpoint, Backend& backend) {
    if (left_.fetch_sub(1) != 1) return false;
    backend.wait();
    if (!outputs_.empty()) checkpoint.refuse_changed(context.os);
    for (OpenOutput& each : outputs_) each.output->commit();
    const bool written = !outputs_.empty();
    outputs_.clear();  // releases the locks
    return written;
  }

 private:
  const SparseLayer& layer_;
  std::vector<std::uint64_t> experts_;
  std::vector<OpenOutput> outputs_;
  std::atomic<std::size_t> left_;
  std::mutex mutex_;  // guards opening
  bool opened_ = false;
  std::exception_ptr failure_;
};

// The number of files that an open layer needs. Error: more than this process may open.
std::uint64_t files_of_a_layer(const std::vector<std::unique_ptr<Sink>>& sinks) {
  constexpr std::uint64_t kOthers = 6;  // a shard or two, a record, its lock, a directory
  std::uint64_t files = 0;
  for (const std::unique_ptr<Sink>& sink : sinks) files += sink->open_files();
  if (const std::uint64_t left = open_files_left(); files + kOthers > left)
    throw Error(ErrorCode::usage, "",
                fmt::format("{} more files must be open at once and this process may open {} more; raise the "
                            "limit (ulimit -n), or build one rank at a time (--rank)",
                            files + kOthers, left));
  return files;
}

// Limited by open files: each worker reads a shard and may commit a layer.
int most_workers(const std::vector<std::unique_ptr<Sink>>& sinks) {
  const std::uint64_t files = files_of_a_layer(sinks), left = open_files_left();
  return static_cast<int>(std::clamp<std::uint64_t>((left - files) / 4, 1, 1 << 16));
}

// How many layers are written side by side. A stop loses the layers that are not committed yet, and a disk is
// not faster with many layers than with a few.
std::size_t most_layers(const Plan& plan, const std::vector<std::unique_ptr<Sink>>& sinks, int workers) {
  const std::uint64_t in_flight = std::max(16 * kGiB, machine_memory() / 4);
  const std::uint64_t layer_bytes = std::max<std::uint64_t>(plan.allocated() / plan.layers.size(), 1);
  const std::uint64_t by_files = open_files_left() / 2 / files_of_a_layer(sinks);
  return std::clamp<std::uint64_t>(std::min(in_flight / layer_bytes, by_files), 1,
                                   static_cast<std::uint64_t>(workers));
}

// Layers that are replaced side by side need space for all of these twice.
std::size_t layers_within_space(const Context& context, const Plan& plan,
                                const std::vector<std::unique_ptr<Sink>>& sinks, std::size_t most) {
  struct FileSystem {
    std::uint64_t free = 0;
    std::vector<Sink*> sinks{};
  };
  std::map<dev_t, FileSystem> systems;
  for (const std::unique_ptr<Sink>& sink : sinks) {
    const std::string directory = nearest_existing(context.os, sink->describe());
    FileSystem& system = systems[status(context.os, directory).st_dev];
    system.free = known_free_space(context.os, directory).value_or(UINT64_MAX);
    system.sinks.push_back(sink.get());
  }
  for (const auto& each : systems)
    most = most_that_fit(most, each.second.free, [&](std::size_t n) {
      std::uint64_t bytes = 0;
      for (Sink* const sink : each.second.sinks) bytes += sink->space_needed(plan.layers, n);
      return bytes;
    });
  return most;
}

// The directories of the checkpoint:
// its own, and the repository's if links of a Hugging Face cache lead there.
std::set<std::string> checkpoint_directories(const Checkpoint& checkpoint) {
  std::set<std::string> directories = {real_path(checkpoint.directory())};
  for (const Shard& shard : checkpoint.shards())
    if (const std::string blobs = parent_of(real_path(shard.path)); name_of(blobs) == "blobs")
      directories.insert(parent_of(blobs));
  return directories;
}

// Jobs for the layers that are not finished; asks the sinks, in parallel since --recheck reads everything.
std::vector<std::unique_ptr<LayerJob>> unfinished(const Context& context, const Plan& plan,
                                                  const std::vector<std::unique_ptr<Sink>>& sinks) {
  std::vector<std::vector<OpenOutput>> outputs(plan.layers.size());
  for (std::vector<OpenOutput>& of_layer : outputs)
    for (const std::unique_ptr<Sink>& sink : sinks) of_layer.push_back({sink.get(), {}, nullptr});
  parallel_for(plan.layers.size() * sinks.size(), context.threads, [&](std::size_t i, int) {
    OpenOutput& each = outputs[i / sinks.size()][i % sinks.size()];
    each.missing = each.sink->missing(*plan.layers[i / sinks.size()]);
  });
  std::vector<std::unique_ptr<LayerJob>> jobs;
  for (std::size_t i = 0; i < plan.layers.size(); ++i) {
    std::erase_if(outputs[i], [](const OpenOutput& each) { return !any(each.missing); });
    if (!outputs[i].empty())
      jobs.push_back(std::make_unique<LayerJob>(*plan.layers[i], std::move(outputs[i])));
  }
  return jobs;
}

}  // namespace

Workforce plan_workforce(const Context& context, const Checkpoint& checkpoint, const Model& model,
                         const Plan& plan, const Backend& backend) {
  const ExpertSource source(context, checkpoint, model, plan.shape, plan.ranks.front(), plan.ranks.size());
  const std::uint64_t fixed = checkpoint.tensors().size() * kBytesPerTensor;
  Workforce out;
  out.bytes_per_worker = ExpertWorker::bytes(backend, source, plan);
  out.workers = workers_within(context.memory, fixed, out.bytes_per_worker, context.threads);
  out.peak_memory = fixed + static_cast<std::uint64_t>(out.workers) * out.bytes_per_worker;
  return out;
}

Outlook check_targets(const Context& context, const Checkpoint& checkpoint, const Plan& plan,
                      const BuildTarget& target) {
  const std::set<std::string> sources = checkpoint_directories(checkpoint);
  std::map<dev_t, std::pair<std::string, std::uint64_t>> needed;  // by file system
  Outlook outlook;
  const std::vector<std::unique_ptr<Sink>> sinks = make_sinks(context, plan, target);
  for (const std::unique_ptr<Sink>& sink : sinks) {
    const std::string parent = parent_of(sink->describe());
    for (const std::string& source : sources)
      if (is_inside(resolved(context.os, parent), source))
        throw Error(ErrorCode::usage, sink->describe(),
                    fmt::format("lies inside the checkpoint ({}); choose a directory outside", source));
    const std::string directory = writable_base(context, parent);
    sink->refuse_other_source();
    if (Sink::Standing standing = sink->standing(plan.layers); !standing.remark.empty())
      outlook.remarks.push_back(std::move(standing.remark));
    auto& [path, bytes] = needed[status(context.os, directory).st_dev];
    path = directory;
    bytes += sink->space_needed(plan.layers, 1);
  }
  files_of_a_layer(sinks);
  for (const auto& [device, need] : needed) {
    const auto& [directory, bytes] = need;
    outlook.file_systems.push_back({directory, bytes, known_free_space(context.os, directory).value_or(0)});
    outlook.to_write += bytes;
    if (target.check_space) require_space(context.os, directory, bytes);
  }
  const std::vector<std::uint64_t> missing = layers_missing(context, plan, target);
  for (const SparseLayer* layer : plan.layers) {
    if (target.trust != Trust::nothing && !std::binary_search(missing.begin(), missing.end(), layer->index)) {
      ++outlook.layers_finished;
      continue;
    }
    ++outlook.layers_to_make;
    for (const Expert& expert : layer->experts) outlook.to_read += expert_bytes(expert);
  }
  return outlook;
}

std::vector<std::uint64_t> layers_missing(const Context& context, const Plan& plan, BuildTarget target) {
  target.trust = Trust::record;
  const std::vector<std::unique_ptr<Sink>> sinks = make_sinks(context, plan, target);
  std::vector<std::uint64_t> out;
  for (const SparseLayer* layer : plan.layers)
    if (std::any_of(sinks.begin(), sinks.end(),
                    [&](const std::unique_ptr<Sink>& sink) { return any(sink->missing(*layer)); }))
      out.push_back(layer->index);
  std::sort(out.begin(), out.end());
  return out;
}

BuildReport build(const Context& context, const Checkpoint& checkpoint, const Model& model, const Plan& plan,
                  const BuildTarget& target, Backend& backend) {
  BuildReport report;
  const std::vector<std::unique_ptr<Sink>> sinks = make_sinks(context, plan, target);
  Workforce force = plan_workforce(context, checkpoint, model, plan, backend);
  force.workers = std::min(force.workers, most_workers(sinks));
  for (const std::unique_ptr<Sink>& sink : sinks) {
    sink->prepare();
    report.outputs.push_back(sink->describe());
  }

  const std::vector<std::unique_ptr<LayerJob>> jobs = unfinished(context, plan, sinks);
  report.finished = plan.layers.size() - jobs.size();
  const ExpertSource source(context, checkpoint, model, plan.shape, plan.ranks.front(), plan.ranks.size());
  std::vector<std::unique_ptr<ExpertWorker>> workers(static_cast<std::size_t>(force.workers));
  std::atomic<std::uint64_t> converted{0}, elsewhere{0};

  std::uint64_t total = 0;
  std::vector<std::size_t> lanes;
  for (const std::unique_ptr<LayerJob>& job : jobs) {
    for (const Expert& expert : job->layer().experts) total += expert_bytes(expert);
    lanes.push_back(job->experts().size());
  }
  if (!jobs.empty()) {
    context.progress.begin("convert", total);
    context.progress.begin_layers(jobs.size());
  }
  const std::size_t at_once = std::min(jobs.size(), most_layers(plan, sinks, force.workers));
  parallel_lanes(lanes, force.workers, layers_within_space(context, plan, sinks, at_once),
                 [&](std::size_t lane, std::size_t task, int number) {
                   context.check_stop();
                   LayerJob& job = *jobs[lane];
                   const std::vector<Expert>& experts = job.layer().experts;
                   const std::uint64_t e = job.experts()[task];
                   const std::vector<OpenOutput>& outputs = job.open(context);
                   if (outputs.empty()) {
                     if (task == 0) ++elsewhere;
                   } else {
                     // Measured: 1.2 GB/s without advice, 1.1 to 1.3 with it, 1.0 to 1.2 with O_DIRECT.
                     // Advice keeps threads that jump between experts from waiting.
                     if (task + 1 < experts.size()) source.prefetch(experts[job.experts()[task + 1]]);
                     std::unique_ptr<ExpertWorker>& worker = workers[static_cast<std::size_t>(number)];
                     Backend& current = backend.current();
                     if (worker && &worker->backend() != &current)
                       worker.reset();  // before more is allocated
                     if (!worker) worker = std::make_unique<ExpertWorker>(current, number, source, plan);
                     worker->run(experts[e], e, outputs);
                   }
                   if (job.finish_expert(context, checkpoint, backend)) ++converted;
                   if (task + 1 == lanes[lane]) context.progress.layer_done();
                   context.progress.advance(expert_bytes(experts[e]));
                 });
  backend.wait();  // the same errors where no layer was left to make
  context.progress.end();

  report.converted = converted;
  report.elsewhere = elsewhere;
  report.complete = true;
  for (const std::unique_ptr<Sink>& sink : sinks) report.complete &= sink->seal();
  return report;
}

}  // namespace planesmith
