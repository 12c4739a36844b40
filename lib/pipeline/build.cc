#include "pipeline/build.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <map>
#include <mutex>
#include <set>
#include <tuple>

#include "base/budget.h"
#include "base/error.h"
#include "base/parallel.h"
#include "base/paths.h"
#include "base/space.h"
#include "pipeline/expert_worker.h"
#include "pipeline/sinks.h"

namespace planesmith {
namespace {

// Reading headers leaves about this much in memory for each tensor of the checkpoint.
constexpr std::uint64_t kBytesPerTensor = 320;

bool any(const SectionSet& set) {
  return std::find(set.begin(), set.end(), true) != set.end();
}

// One layer on its way: its outputs are opened by the first expert and committed by the last.
class LayerJob {
 public:
  LayerJob(const SparseLayer& layer, std::vector<OpenOutput> outputs)
      : layer_(layer), outputs_(std::move(outputs)), left_(layer.experts.size()) {}

  const SparseLayer& layer() const { return layer_; }

  // The outputs, opened once. Empty where other runs have them all.
  const std::vector<OpenOutput>& open(const Context& context) {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (opened_) return outputs_;
    opened_ = true;
    for (OpenOutput& each : outputs_) {
      each.output = each.sink->open_layer(layer_, each.missing);
      if (!each.output)
        context.progress.say(fmt::format("layer {}: another run has it in {}; left to that run", layer_.index,
                                         each.sink->describe()));
    }
    std::erase_if(outputs_, [](const OpenOutput& each) { return !each.output; });
    return outputs_;
  }

  // Called once for each expert; true where this was the last and the layer is committed now. Error: a shard
  // has changed since its header was read, and with it what the identity was made of.
  bool finish_expert(const Context& context, const Checkpoint& checkpoint) {
    if (left_.fetch_sub(1) != 1) return false;
    if (!outputs_.empty()) checkpoint.refuse_changed(context.os);
    for (OpenOutput& each : outputs_) each.output->commit();
    const bool written = !outputs_.empty();
    outputs_.clear();  // gives the locks back
    return written;
  }

 private:
  const SparseLayer& layer_;
  std::vector<OpenOutput> outputs_;
  std::atomic<std::size_t> left_;
  std::mutex mutex_;
  bool opened_ = false;
};

struct Task {
  LayerJob* job;
  std::uint64_t expert;
};

// The experts of the jobs' layers, each layer's in the order in which they lie in the shards.
std::vector<Task> file_order(const std::vector<std::unique_ptr<LayerJob>>& jobs) {
  std::vector<Task> tasks;
  for (const std::unique_ptr<LayerJob>& job : jobs) {
    const std::size_t first = tasks.size();
    const std::vector<Expert>& experts = job->layer().experts;
    for (std::uint64_t e = 0; e < experts.size(); ++e) tasks.push_back({job.get(), e});
    std::sort(tasks.begin() + static_cast<std::ptrdiff_t>(first), tasks.end(),
              [&](const Task& a, const Task& b) {
                const Tensor &x = *experts[a.expert][0].weight, &y = *experts[b.expert][0].weight;
                return std::tuple(x.shard, x.offset) < std::tuple(y.shard, y.offset);
              });
  }
  return tasks;
}

// Directories that belong to the checkpoint: its own, and where links of a Hugging Face cache lead, the
// repository's.
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
  out.bytes_per_worker = worker_bytes(backend, source, plan);
  out.workers = workers_within(context.memory, fixed, out.bytes_per_worker, backend.workers(context.threads));
  out.peak_memory = fixed + static_cast<std::uint64_t>(out.workers) * out.bytes_per_worker;
  return out;
}

void check_targets(const Context& context, const Checkpoint& checkpoint, const Plan& plan,
                   const BuildTarget& target) {
  const std::set<std::string> sources = checkpoint_directories(checkpoint);
  std::map<dev_t, std::pair<std::string, std::uint64_t>> needed;  // by file system
  const std::vector<std::unique_ptr<Sink>> sinks = make_sinks(context, plan, target);
  for (const std::unique_ptr<Sink>& sink : sinks) {
    const std::string directory = writable_base(context, parent_of(sink->describe()));
    for (const std::string& source : sources)
      if (is_inside(real_path(directory), source))
        throw Error(ErrorCode::usage, sink->describe(),
                    fmt::format("lies inside the checkpoint ({}); choose a directory outside", source));
    auto& [path, bytes] = needed[status(context.os, directory).st_dev];
    path = directory;
    bytes += sink->space_needed(plan.layers);
  }
  if (!target.check_space) return;
  for (const auto& [device, need] : needed) require_space(context.os, need.first, need.second);
}

BuildReport build(const Context& context, const Checkpoint& checkpoint, const Model& model, const Plan& plan,
                  const BuildTarget& target, Backend& backend) {
  BuildReport report;
  const Workforce force = plan_workforce(context, checkpoint, model, plan, backend);
  const std::vector<std::unique_ptr<Sink>> sinks = make_sinks(context, plan, target);
  for (const std::unique_ptr<Sink>& sink : sinks) {
    sink->prepare();
    report.outputs.push_back(sink->describe());
  }

  const std::vector<std::unique_ptr<LayerJob>> jobs = unfinished(context, plan, sinks);
  report.finished = plan.layers.size() - jobs.size();
  const std::vector<Task> tasks = file_order(jobs);
  const ExpertSource source(context, checkpoint, model, plan.shape, plan.ranks.front(), plan.ranks.size());
  std::vector<std::unique_ptr<ExpertWorker>> workers(static_cast<std::size_t>(force.workers));
  std::atomic<std::uint64_t> converted{0}, elsewhere{0};

  std::uint64_t total = 0;
  for (const Task& task : tasks) total += expert_bytes(task.job->layer().experts[task.expert]);
  if (!tasks.empty()) context.progress.begin("convert", total);
  parallel_for(tasks.size(), force.workers, [&](std::size_t i, int number) {
    context.check_stop();
    LayerJob& job = *tasks[i].job;
    const Expert& expert = job.layer().experts[tasks[i].expert];
    const std::vector<OpenOutput>& outputs = job.open(context);
    if (outputs.empty()) {
      if (tasks[i].expert == 0) ++elsewhere;
    } else {
      // Read as it comes 1.2 GB/s, with advice 1.1 to 1.3, with O_DIRECT 1.0 to 1.2: what is read stays in
      // the page cache only as long as nothing else wants it, and advice keeps threads that jump between
      // experts from waiting.
      const std::size_t ahead = i + workers.size();
      if (ahead < tasks.size()) source.prefetch(tasks[ahead].job->layer().experts[tasks[ahead].expert]);
      std::unique_ptr<ExpertWorker>& worker = workers[static_cast<std::size_t>(number)];
      if (!worker) worker = make_worker(backend, number, source, plan);
      worker->run(expert, tasks[i].expert, outputs);
    }
    if (job.finish_expert(context, checkpoint)) ++converted;
    context.progress.advance(expert_bytes(expert));
  });
  context.progress.end();

  report.converted = converted;
  report.elsewhere = elsewhere;
  report.complete = true;
  for (const std::unique_ptr<Sink>& sink : sinks) report.complete &= sink->seal();
  return report;
}

}  // namespace planesmith
