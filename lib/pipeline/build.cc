#include "pipeline/build.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <map>
#include <mutex>
#include <tuple>

#include "base/error.h"
#include "base/parallel.h"
#include "base/paths.h"
#include "base/size.h"
#include "pipeline/expert_source.h"
#include "pipeline/sinks.h"

namespace planesmith {
namespace {

// Reading headers leaves about this much in memory for each tensor of the checkpoint.
constexpr std::uint64_t kBytesPerTensor = 320;

bool any(const SectionSet& set) { return std::find(set.begin(), set.end(), true) != set.end(); }

std::uint64_t expert_read_bytes(const Expert& expert) {
  std::uint64_t bytes = 0;
  for (const ExpertTensors& tensors : expert) bytes += tensors.weight->size + tensors.scale->size;
  return bytes;
}

// One layer on its way: its outputs are opened by the first expert and committed by the last.
class LayerJob {
 public:
  struct Part {
    Sink* sink;
    SectionSet missing;
    std::unique_ptr<LayerOutput> output;
  };
  LayerJob(const SparseLayer& layer, std::vector<Part> parts)
      : layer_(layer), parts_(std::move(parts)), left_(layer.experts.size()) {}

  const SparseLayer& layer() const { return layer_; }

  // The outputs, opened once. Empty where other runs have them all.
  const std::vector<Part>& open(const Context& context) {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (opened_) return parts_;
    opened_ = true;
    for (Part& part : parts_) {
      part.output = part.sink->open_layer(layer_, part.missing);
      if (!part.output)
        context.progress.say(
            fmt::format("layer {}: another run has it in {}; left to that run", layer_.index, part.sink->describe()));
    }
    std::erase_if(parts_, [](const Part& part) { return !part.output; });
    return parts_;
  }

  // Called once for each expert; true where this was the last and the layer is committed now.
  bool finish_expert() {
    if (left_.fetch_sub(1) != 1) return false;
    for (Part& part : parts_) part.output->commit();
    const bool written = !parts_.empty();
    parts_.clear();  // gives the locks back
    return written;
  }

 private:
  const SparseLayer& layer_;
  std::vector<Part> parts_;
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
    std::sort(tasks.begin() + static_cast<std::ptrdiff_t>(first), tasks.end(), [&](const Task& a, const Task& b) {
      const Tensor &x = *experts[a.expert][0].weight, &y = *experts[b.expert][0].weight;
      return std::tuple(x.shard, x.offset) < std::tuple(y.shard, y.offset);
    });
  }
  return tasks;
}

// A worker's memory: one expert as read, and one rank's sections of it.
class Worker {
 public:
  Worker(Backend& backend, int number, const ExpertSource& source, const Plan& plan)
      : converter_(backend.make_converter(number)),
        input_(backend.allocate(source.buffer_bytes())),
        output_(backend.allocate(plan.output_per_rank)),
        source_(source),
        plan_(plan) {
    std::uint64_t at = 0;
    for (std::size_t s = 0; s < format::kSections; ++s) {
      if (!plan.sections[s]) continue;
      const std::uint64_t bytes = section_bytes(static_cast<format::Section>(s), plan.shape);
      place_[s] = output_->bytes().subspan(at, bytes);
      at += round_up(bytes, 4 * kKiB);
    }
  }

  void run(const LayerJob& job, const std::vector<LayerJob::Part>& parts, std::uint64_t expert) {
    const ExpertSource::Loaded loaded = source_.load(job.layer().experts[expert], input_->bytes());
    for (const std::uint64_t rank : plan_.ranks) {
      const ExpertSections sections = convert(loaded, rank, parts);
      for (const LayerJob::Part& part : parts)
        if (part.sink->rank() == rank) part.output->write(expert, sections);
    }
  }

 private:
  ExpertSections convert(const ExpertSource::Loaded& loaded, std::uint64_t rank,
                         const std::vector<LayerJob::Part>& parts) {
    SectionTargets targets{};
    for (const LayerJob::Part& part : parts)
      if (part.sink->rank() == rank)
        for (std::size_t s = 0; s < format::kSections; ++s)
          if (part.missing[s]) targets[s] = place_[s].data();
    ExpertSections out;
    if (std::all_of(targets.begin(), targets.end(), [](const std::uint8_t* at) { return at == nullptr; })) return out;
    if (const auto bad = converter_->convert(source_.slices(loaded, rank), plan_.request.zero_mode, targets))
      source_.refuse(loaded, rank, *bad);
    for (std::size_t s = 0; s < format::kSections; ++s) {
      if (targets[s] == nullptr) continue;
      out.bytes[s] = place_[s];
      out.digest[s] = Xxh3::of(place_[s]);
    }
    return out;
  }

  std::unique_ptr<Converter> converter_;
  std::unique_ptr<Buffer> input_, output_;
  const ExpertSource& source_;
  const Plan& plan_;
  std::array<Bytes, format::kSections> place_;
};

// Jobs for the layers that are not finished; asks the sinks, in parallel since --recheck reads everything.
std::vector<std::unique_ptr<LayerJob>> unfinished(const Context& context, const Plan& plan,
                                                  const std::vector<std::unique_ptr<Sink>>& sinks) {
  std::vector<std::vector<LayerJob::Part>> parts(plan.layers.size());
  for (std::vector<LayerJob::Part>& of_layer : parts)
    for (const std::unique_ptr<Sink>& sink : sinks) of_layer.push_back({sink.get(), {}, nullptr});
  parallel_for(plan.layers.size() * sinks.size(), context.threads, [&](std::size_t i, int) {
    LayerJob::Part& part = parts[i / sinks.size()][i % sinks.size()];
    part.missing = part.sink->missing(*plan.layers[i / sinks.size()]);
  });
  std::vector<std::unique_ptr<LayerJob>> jobs;
  for (std::size_t i = 0; i < plan.layers.size(); ++i) {
    std::erase_if(parts[i], [](const LayerJob::Part& part) { return !any(part.missing); });
    if (!parts[i].empty()) jobs.push_back(std::make_unique<LayerJob>(*plan.layers[i], std::move(parts[i])));
  }
  return jobs;
}

}  // namespace

Workforce plan_workforce(const Context& context, const Checkpoint& checkpoint, const Model& model, const Plan& plan,
                         const Backend& backend) {
  const ExpertSource source(context, checkpoint, model, plan.shape, plan.ranks.front(), plan.ranks.size());
  const std::uint64_t fixed = checkpoint.tensors().size() * kBytesPerTensor;
  Workforce out;
  out.bytes_per_worker = source.buffer_bytes() + plan.output_per_rank;
  if (context.memory < fixed + out.bytes_per_worker)
    throw Error(ErrorCode::usage, "", fmt::format("--memory {} is too small here; the smallest that works is {}",
                                                  context.memory, fixed + out.bytes_per_worker));
  const std::uint64_t fits = (context.memory - fixed) / out.bytes_per_worker;
  out.workers = static_cast<int>(std::min<std::uint64_t>(static_cast<std::uint64_t>(backend.workers(context.threads)), fits));
  out.peak_memory = fixed + static_cast<std::uint64_t>(out.workers) * out.bytes_per_worker;
  return out;
}

void check_targets(const Context& context, const Checkpoint& checkpoint, const Plan& plan, const BuildTarget& target) {
  const std::string source = real_path(checkpoint.folder());
  std::map<dev_t, std::pair<std::string, std::uint64_t>> needed;  // by file system
  const std::vector<std::unique_ptr<Sink>> sinks = make_sinks(context, plan, target);
  for (const std::unique_ptr<Sink>& sink : sinks) {
    const std::string folder = writable_base(context, parent_of(sink->describe()));
    if (is_inside(real_path(folder), source))
      throw Error(ErrorCode::usage, sink->describe(), "lies inside the checkpoint; choose a folder outside");
    auto& [path, bytes] = needed[status(context.os, folder).st_dev];
    path = folder;
    bytes += sink->space_needed(plan.layers);
  }
  for (const auto& [device, need] : needed) {
    const auto& [folder, bytes] = need;
    const std::uint64_t available = free_space(context.os, folder);
    if (bytes > available)
      throw Error(folder, fmt::format("not enough space: {} needed, {} free", exact_size(bytes), exact_size(available)));
  }
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
  std::vector<std::unique_ptr<Worker>> workers(static_cast<std::size_t>(force.workers));
  std::atomic<std::uint64_t> converted{0}, elsewhere{0};

  std::uint64_t total = 0;
  for (const Task& task : tasks) total += expert_read_bytes(task.job->layer().experts[task.expert]);
  if (!tasks.empty()) context.progress.begin("convert", total);
  parallel_for(tasks.size(), force.workers, [&](std::size_t i, int number) {
    context.check_stop();
    LayerJob& job = *tasks[i].job;
    const Expert& expert = job.layer().experts[tasks[i].expert];
    const std::vector<LayerJob::Part>& parts = job.open(context);
    if (parts.empty()) {
      if (tasks[i].expert == 0) ++elsewhere;
    } else {
      const std::size_t ahead = i + workers.size();
      if (ahead < tasks.size()) source.prefetch(tasks[ahead].job->layer().experts[tasks[ahead].expert]);
      std::unique_ptr<Worker>& worker = workers[static_cast<std::size_t>(number)];
      if (!worker) worker = std::make_unique<Worker>(backend, number, source, plan);
      worker->run(job, parts, tasks[i].expert);
    }
    if (job.finish_expert()) ++converted;
    context.progress.advance(expert_read_bytes(expert));
  });
  context.progress.end();

  report.converted = converted;
  report.elsewhere = elsewhere;
  report.complete = true;
  for (const std::unique_ptr<Sink>& sink : sinks) report.complete &= sink->seal();
  return report;
}

}  // namespace planesmith
