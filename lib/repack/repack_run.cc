#include "repack/repack_run.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <exception>
#include <mutex>
#include <optional>

#include "base/budget.h"
#include "base/error.h"
#include "base/parallel.h"
#include "base/stream.h"

namespace planesmith {
namespace {

struct Outcome {
  Deviation deviation;
  LevelSet levels = 0;
};

// One file that is being written.
class Work {
 public:
  explicit Work(const RepackFile& file)
      : file_(&file), outcomes_(file.tasks.size()), left_(file.tasks.size()) {}

  // Opens source and sink for the first task. If that failed in another thread, throws the same error.
  void open(const Context& context, const std::string& directory, const MakeSink& make) {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (failure_) std::rethrow_exception(failure_);
    if (sink_) return;
    try {
      source_.emplace(File::open_read(context.os, join(directory, file_->name)));
      sink_ = make(*file_);
    } catch (...) {
      failure_ = std::current_exception();
      throw;
    }
  }
  const File& source() const { return *source_; }
  RepackSink& sink() { return *sink_; }

  // The thread that completes the last task finishes the file.
  void done(std::size_t task, const Outcome& outcome, bool list_codebooks) {
    outcomes_[task] = outcome;
    if (left_.fetch_sub(1) != 1) return;
    FileFigures figures;
    figures.name = file_->name;
    figures.tensors = file_->tensors;
    for (const Outcome& each : outcomes_) {
      figures.deviation += each.deviation;
      if (each.levels != 0 && list_codebooks) figures.count_codebook(levels_text(each.levels));
    }
    sink_->finish(figures);
    sink_.reset();
    source_.reset();
  }

 private:
  const RepackFile* file_;
  std::mutex mutex_;
  std::optional<File> source_;
  std::unique_ptr<RepackSink> sink_;
  std::exception_ptr failure_;
  std::vector<Outcome> outcomes_;
  std::atomic<std::size_t> left_;
};

// What a worker keeps from one task to the next.
struct Worker {
  std::vector<std::uint8_t> buffer;
  Codebook last;        // of the last group
  bool steady = false;  // the group before it had the same codebook
};

// One worker on one task.
class TaskRun {
 public:
  TaskRun(const Context& context, const RepackRun& run, const RepackTask& task, Work& work, Worker& worker)
      : context_(context), run_(run), task_(task), work_(work), worker_(worker), buffer_(worker.buffer) {}

  Outcome operator()() {
    Outcome outcome;
    if (task_.kind == RepackTask::Kind::group) {
      outcome = group();
    } else {
      const RepackRange& range = task_.ranges.front();
      const Bytes bytes = buffer_.first(range.size);
      work_.source().read(bytes, range.offset);
      if (task_.kind == RepackTask::Kind::rows)
        outcome.deviation = run_.remapper.remap_rows(bytes, task_.row_bytes);
      work_.sink().put(bytes, range.offset);
    }
    context_.progress.advance(task_.bytes());
    return outcome;
  }

 private:
  // The codebook is known only after the last byte. Nearly all groups of a model get the same one, so it is
  // guessed, and pieces are written while they are still in the cache. A wrong guess costs a second pass, as
  // no guess does.
  Outcome group() {
    Counts all{}, own{};
    for (const RepackRange& range : task_.elsewhere) {
      const File file = File::open_read(context_.os, join(run_.directory, run_.files[range.file].name));
      in_pieces(file, range, [&](Bytes piece, std::uint64_t) { run_.remapper.count(piece, all); });
    }
    const bool guess = worker_.steady && work_.sink().rewritable();
    for_own_pieces([&](Bytes piece, std::uint64_t offset) {
      run_.remapper.count(piece, own);
      if (guess) map_and_put(worker_.last, piece, offset);
    });
    for (unsigned n = 0; n < 16; ++n) all[n] += own[n];

    const Codebook codebook = run_.remapper.choose(all);
    const bool same = codebook.levels == worker_.last.levels;
    if (!guess || !same)
      for_own_pieces([&](Bytes piece, std::uint64_t offset) { map_and_put(codebook, piece, offset); });
    worker_.last = codebook;
    worker_.steady = same;
    return {deviation(own, codebook.map), codebook.levels};
  }

  void map_and_put(const Codebook& codebook, Bytes piece, std::uint64_t offset) {
    run_.remapper.apply(codebook, piece);
    work_.sink().put(piece, offset);
  }

  template <class Do>
  void for_own_pieces(Do work) {
    for (const RepackRange& range : task_.ranges) in_pieces(work_.source(), range, work);
  }

  template <class Do>
  void in_pieces(const File& file, const RepackRange& range, Do work) {
    for (std::uint64_t done = 0; done < range.size; done += kPiece) {
      context_.check_stop();
      const Bytes piece = buffer_.first(std::min(kPiece, range.size - done));
      file.read(piece, range.offset + done);
      work(piece, range.offset + done);
    }
  }

  const Context& context_;
  const RepackRun& run_;
  const RepackTask& task_;
  Work& work_;
  Worker& worker_;
  const Bytes buffer_;
};

}  // namespace

RepackMemory share_memory(const Context& context, Granularity granularity, const format::Geometry& geometry) {
  RepackMemory memory;
  const std::uint64_t row =
      granularity == Granularity::row ? std::max(geometry.hidden, geometry.intermediate) / 2 : 0;
  memory.buffer = std::max(kPiece, row);
  const std::uint64_t fixed = granularity == Granularity::block32 ? sizeof(NibbleMap) << kGridLevels : 0;
  memory.workers = workers_within(context.memory, fixed, memory.buffer, context.threads);
  memory.total = fixed + memory.buffer * static_cast<std::uint64_t>(memory.workers);
  return memory;
}

void run_repack(const Context& context, const RepackRun& run, const std::vector<bool>& chosen,
                std::size_t most_open, const MakeSink& make) {
  std::vector<std::uint32_t> files;
  std::vector<std::size_t> lanes;
  std::vector<std::unique_ptr<Work>> works;
  for (std::uint32_t f = 0; f < run.files.size(); ++f) {
    if (!chosen[f]) continue;
    files.push_back(f);
    lanes.push_back(run.files[f].tasks.size());
    works.push_back(std::make_unique<Work>(run.files[f]));
    if (run.files[f].tasks.empty()) make(run.files[f])->finish({run.files[f].name, 0, {}, {}});
  }
  std::vector<Worker> workers(static_cast<std::size_t>(run.memory.workers));
  parallel_lanes(lanes, run.memory.workers, most_open, [&](std::size_t lane, std::size_t t, int number) {
    context.check_stop();
    Worker& worker = workers[static_cast<std::size_t>(number)];
    worker.buffer.resize(run.memory.buffer);
    const RepackTask& task = run.files[files[lane]].tasks[t];
    works[lane]->open(context, run.directory, make);
    works[lane]->done(t, TaskRun(context, run, task, *works[lane], worker)(), run.list_codebooks);
  });
}

}  // namespace planesmith
