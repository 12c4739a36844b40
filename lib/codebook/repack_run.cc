#include "codebook/repack_run.h"

#include <fmt/format.h>
#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <mutex>
#include <optional>

#include "base/error.h"
#include "base/parallel.h"
#include "base/stream.h"
#include "quant/backend.h"

namespace planesmith {
namespace {

struct Outcome {
  Deviation deviation;
  LevelSet levels = 0;
};

// One file on its way.
class Work {
 public:
  explicit Work(const RepackFile& file)
      : file_(&file), outcomes_(file.tasks.size()), left_(file.tasks.size()) {}

  // Opens source and sink when the first task comes.
  void open(const Context& context, const std::string& folder, const MakeSink& make) {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (sink_) return;
    source_.emplace(File::open_read(context.os, join(folder, file_->name)));
    sink_ = make(*file_);
  }
  const File& source() const { return *source_; }
  RepackSink& sink() { return *sink_; }

  // After the last task the file is finished, by whoever did that one.
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
  std::vector<Outcome> outcomes_;
  std::atomic<std::size_t> left_;
};

// One worker on one task.
class TaskRun {
 public:
  TaskRun(const Context& context, const RepackRun& run, const RepackTask& task, Work& work, Bytes buffer)
      : context_(context), run_(run), task_(task), work_(work), buffer_(buffer) {}

  Outcome operator()() {
    if (task_.kind == RepackTask::Kind::group) return group();
    Outcome outcome;
    const RepackRange& range = task_.ranges.front();
    const Bytes bytes = buffer_.first(range.size);
    work_.source().read(bytes, range.offset);
    if (task_.kind == RepackTask::Kind::rows)
      outcome.deviation = run_.remapper.remap_rows(bytes, task_.row_bytes);
    put(bytes, range.offset);
    return outcome;
  }

 private:
  Outcome group() {
    Counts all{}, own{};
    for (const RepackRange& range : task_.elsewhere) {
      const File file = File::open_read(context_.os, join(run_.folder, run_.files[range.file].name));
      in_pieces(range, [&](std::uint64_t offset, std::uint64_t bytes) {
        file.read(buffer_.first(bytes), offset);
        run_.remapper.count(buffer_.first(bytes), all);
      });
    }

    // Where the group fits into the buffer it is read once. A piece is counted, and mapped and written, while
    // the cache still has it.
    const bool whole = task_.bytes() <= buffer_.size();
    std::uint64_t at = 0;
    for (const RepackRange& range : task_.ranges)
      in_pieces(range, [&](std::uint64_t offset, std::uint64_t bytes) {
        const Bytes piece = buffer_.subspan(whole ? at : 0, bytes);
        work_.source().read(piece, offset);
        run_.remapper.count(piece, own);
        at += bytes;
      });
    for (unsigned n = 0; n < 16; ++n) all[n] += own[n];

    const Codebook codebook = run_.remapper.choose(all);
    at = 0;
    for (const RepackRange& range : task_.ranges)
      in_pieces(range, [&](std::uint64_t offset, std::uint64_t bytes) {
        const Bytes piece = buffer_.subspan(whole ? at : 0, bytes);
        if (!whole) work_.source().read(piece, offset);
        run_.remapper.apply(codebook, piece);
        put(piece, offset);
        at += bytes;
      });
    return {deviation(own, codebook.map), codebook.levels};
  }

  template <class Do>
  void in_pieces(const RepackRange& range, Do work) {
    for (std::uint64_t done = 0; done < range.size; done += kPiece) {
      context_.check_stop();
      work(range.offset + done, std::min(kPiece, range.size - done));
    }
  }

  void put(ConstBytes bytes, std::uint64_t offset) {
    work_.sink().put(bytes, offset);
    context_.progress.advance(bytes.size());
  }

  const Context& context_;
  const RepackRun& run_;
  const RepackTask& task_;
  Work& work_;
  Bytes buffer_;
};

}  // namespace

RepackMemory share_memory(const Context& context, Granularity granularity, const format::Geometry& geometry) {
  const std::uint64_t group = group_bytes(granularity, geometry);
  const std::uint64_t fixed = granularity == Granularity::block32 ? sizeof(NibbleMap) << kGridLevels : 0;
  const std::uint64_t least = std::max(kPiece, granularity == Granularity::row ? group : 0);
  if (context.memory < fixed + least)
    throw Error(ErrorCode::usage, "",
                fmt::format("--memory {} is too small; the smallest that works here is {}",
                            exact_size(context.memory), exact_size(fixed + least)));
  const std::uint64_t room = context.memory - fixed;
  RepackMemory memory;
  memory.workers = static_cast<int>(
      std::min<std::uint64_t>(static_cast<std::uint64_t>(std::max(context.threads, 1)), room / least));
  memory.buffer = std::min(std::max(kPiece, group), room / static_cast<std::uint64_t>(memory.workers));
  memory.total = fixed + memory.buffer * static_cast<std::uint64_t>(memory.workers);
  return memory;
}

void run_repack(const Context& context, const RepackRun& run, const std::vector<bool>& chosen,
                const MakeSink& make) {
  struct Item {
    std::uint32_t file;
    std::size_t task;
  };
  std::vector<Item> items;
  std::vector<std::unique_ptr<Work>> works(run.files.size());
  for (std::uint32_t f = 0; f < run.files.size(); ++f) {
    if (!chosen[f]) continue;
    works[f] = std::make_unique<Work>(run.files[f]);
    for (std::size_t t = 0; t < run.files[f].tasks.size(); ++t) items.push_back({f, t});
    if (run.files[f].tasks.empty()) make(run.files[f])->finish({run.files[f].name, 0, {}, {}});
  }
  const auto memory = make_cpu_backend(kScalarKernels);  // aligned, and not filled in vain
  std::vector<std::unique_ptr<Buffer>> buffers(static_cast<std::size_t>(run.memory.workers));
  parallel_for(items.size(), run.memory.workers, [&](std::size_t i, int worker) {
    context.check_stop();
    std::unique_ptr<Buffer>& buffer = buffers[static_cast<std::size_t>(worker)];
    if (!buffer) {
      buffer = memory->allocate(run.memory.buffer);
      ::madvise(buffer->bytes().data(), buffer->bytes().size(), MADV_HUGEPAGE);  // every byte passes through it
    }
    const auto [f, t] = items[i];
    works[f]->open(context, run.folder, make);
    works[f]->done(t, TaskRun(context, run, run.files[f].tasks[t], *works[f], buffer->bytes())(),
                   run.list_codebooks);
  });
}

}  // namespace planesmith
