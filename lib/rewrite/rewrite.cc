#include "rewrite/rewrite.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <exception>
#include <mutex>

#include "base/budget.h"
#include "base/error.h"
#include "base/parallel.h"
#include "base/space.h"
#include "repack/source_files.h"

namespace planesmith {
namespace {

// One shard that is being written.
class Work {
 public:
  explicit Work(const NewShard& shard) : shard_(&shard) {
    for (const NewShard::Work& work : shard.work) left_ += work.job->parts();
  }
  // If opening failed in another thread, throws the same error.
  template <class Make>
  RepackSink& open(const Make& make) {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (failure_) std::rethrow_exception(failure_);
    if (sink_) return *sink_;
    try {
      sink_ = make(shard_->file);
      sink_->put(bytes_of(shard_->header), 0);
    } catch (...) {
      failure_ = std::current_exception();
      throw;
    }
    return *sink_;
  }
  // The thread that completes the last part finishes the shard.
  void done() {
    if (left_.fetch_sub(1) == 1) finish();
  }
  void finish() {
    sink_->finish({shard_->file.name, shard_->file.tensors, {}, {}});
    sink_.reset();
  }

 private:
  const NewShard* shard_;
  std::mutex mutex_;
  std::unique_ptr<RepackSink> sink_;
  std::exception_ptr failure_;
  std::atomic<std::size_t> left_{0};
};

class ShardIo : public JobIo {
 public:
  using JobIo::JobIo;
  void set(const NewShard::Work& work, RepackSink& sink) {
    work_ = &work;
    sink_ = &sink;
  }
  void put(std::size_t tensor, std::uint64_t offset, ConstBytes bytes) override {
    sink_->put(bytes, work_->offsets.at(tensor) + offset);
    context().progress.advance(bytes.size());
  }

 private:
  const NewShard::Work* work_ = nullptr;
  RepackSink* sink_ = nullptr;
};

template <class Make>
void write(const Context& context, Backend& backend, int workers, std::size_t most_open,
           const std::vector<NewShard>& shards, const std::vector<bool>& chosen, const Make& make) {
  struct Item {
    std::size_t work, part;
  };
  struct Lane {
    const NewShard* shard;
    std::unique_ptr<Work> state;
    std::vector<Item> items;
  };
  std::vector<Lane> lanes;
  std::vector<std::size_t> counts;
  for (std::size_t s = 0; s < shards.size(); ++s) {
    if (!chosen[s]) continue;
    Lane lane{&shards[s], std::make_unique<Work>(shards[s]), {}};
    for (std::size_t w = 0; w < shards[s].work.size(); ++w)
      for (std::size_t p = 0; p < shards[s].work[w].job->parts(); ++p) lane.items.push_back({w, p});
    if (lane.items.empty()) {  // nothing but empty tensors
      lane.state->open(make);
      lane.state->finish();
    }
    counts.push_back(lane.items.size());
    lanes.push_back(std::move(lane));
  }
  std::vector<std::unique_ptr<ShardIo>> ios(static_cast<std::size_t>(workers));
  for (int worker = 0; worker < workers; ++worker)
    ios[static_cast<std::size_t>(worker)] = std::make_unique<ShardIo>(context, backend, worker);
  parallel_lanes(counts, workers, most_open, [&](std::size_t l, std::size_t i, int worker) {
    context.check_stop();
    const Lane& lane = lanes[l];
    ShardIo& io = *ios[static_cast<std::size_t>(worker)];
    const NewShard::Work& work = lane.shard->work[lane.items[i].work];
    io.set(work, lane.state->open(make));
    work.job->run(lane.items[i].part, io);
    lane.state->done();
  });
}

std::string index_text(const NewShards& shards) {
  nlohmann::ordered_json index;
  index["metadata"]["total_size"] = shards.total_size();
  for (const auto& [tensor, shard] : shards.index()) index["weight_map"][tensor] = shard;
  return index.dump(2, ' ', true) + "\n";
}

// Files that are copied whole, as shards without a header.
class Copies {
 public:
  void add(const std::string& name, std::uint64_t bytes, const std::string& path, std::vector<NewShard>& to) {
    paths_.push_back(std::make_unique<std::string>(path));
    jobs_.push_back(
        std::make_unique<CopyJob>(NewTensor{name, Dtype::u8, {bytes}}, Place{paths_.back().get(), 0}));
    NewShard file;
    file.file.name = name;
    file.file.bytes = bytes;
    file.work.push_back({jobs_.back().get(), {0}});
    to.push_back(std::move(file));
  }

 private:
  std::vector<std::unique_ptr<std::string>> paths_;
  std::vector<std::unique_ptr<Job>> jobs_;
};

}  // namespace

RewriteResult rewrite(const Context& context, const Checkpoint& checkpoint, NewShards& shards,
                      const Rewrite& what, const RewriteOptions& options) {
  const std::unique_ptr<Backend> backend = make_backend(options.backend);
  RewriteResult result;
  result.backend = backend->describe();
  constexpr std::uint64_t kEach = JobIo::kScratchBytes;
  result.workers = workers_within(context.memory, 0, kEach, context.threads);
  result.memory = kEach * static_cast<std::uint64_t>(result.workers);

  std::vector<NewShard> files = shards.lay_out();
  const std::size_t rewritten = files.size();
  result.made = shards.made();
  result.tensors = shards.index().size();
  result.bytes = shards.total_size();

  std::map<std::string, std::string> texts = what.texts;
  texts.emplace(kIndexName, index_text(shards));
  std::vector<std::string> not_linked;
  const std::vector<std::string> untouched = shards.untouched();
  for (const Shard& shard : checkpoint.shards())
    if (std::find(untouched.begin(), untouched.end(), shard.name) == untouched.end())
      not_linked.push_back(shard.name);
  for (const auto& [name, text] : texts) not_linked.push_back(name);
  not_linked.insert(not_linked.end(), what.dropped.begin(), what.dropped.end());
  for (const auto& [name, path] : what.taken) not_linked.push_back(name);
  const SourceFiles others(context, checkpoint.directory(), not_linked);
  result.others = others.files;
  result.left_out = others.left_out;
  Copies copies;
  for (const auto& [name, path] : what.taken)
    copies.add(name, static_cast<std::uint64_t>(status(context.os, path).st_size), path, files);
  if (options.link == LinkMode::copy)
    for (const NamedSize& file : others.files)
      copies.add(file.name, file.bytes, join(checkpoint.directory(), file.name), files);
  for (const NewShard& file : files)
    if (texts.contains(file.file.name) ||
        std::any_of(others.files.begin(), others.files.end(), [&](const NamedSize& other) {
          return options.link != LinkMode::copy && other.name == file.file.name;
        }))
      throw Error(checkpoint.directory(),
                  fmt::format("has a file '{}' already, which is the name of a new shard; rename it",
                              file.file.name));

  Json build = what.build;
  build["source"] = fingerprint(checkpoint);
  std::vector<const Checkpoint*> sources = {&checkpoint};
  if (what.from != nullptr) {
    build["from"] = fingerprint(*what.from);
    sources.push_back(what.from);
  }
  RepackTarget target(context, std::move(sources), options.target, build, options.force);
  if (!options.dry_run) target.open();

  std::vector<bool> there(files.size()), missing(files.size());
  for (std::size_t i = 0; i < files.size(); ++i) there[i] = target.finished(files[i].file).has_value();
  if (options.recheck && !options.dry_run) {
    std::uint64_t bytes = 0;
    for (std::size_t i = 0; i < files.size(); ++i) bytes += there[i] ? files[i].file.bytes : 0;
    context.progress.begin("recheck", bytes);
    std::vector<char> same(files.size(), 1);
    write(context, *backend, result.workers, files.size(), files, there, [&](const RepackFile& file) {
      const auto number = static_cast<std::size_t>(
          std::find_if(files.begin(), files.end(), [&](const NewShard& f) { return &f.file == &file; }) -
          files.begin());
      return target.checker(file, [&, number](bool is_same) { same[number] = is_same; });
    });
    context.progress.end();
    for (std::size_t i = 0; i < files.size(); ++i)
      if (same[i] == 0) {
        context.progress.say(files[i].file.name + " has wrong content; it is written again");
        there[i] = false;
      }
  }

  result.free = target.free_bytes();
  std::vector<const RepackFile*> to_write;
  for (std::size_t i = 0; i < files.size(); ++i) {
    missing[i] = !there[i];
    if (missing[i]) {
      result.to_write += files[i].file.bytes;
      to_write.push_back(&files[i].file);
    }
    if (i < rewritten) result.files.push_back({files[i].file.name, files[i].file.bytes, !missing[i]});
  }
  std::uint64_t of_texts = 0;
  for (const auto& [name, text] : texts) {
    result.texts.push_back(name);
    of_texts += text.size();
  }
  result.to_write += of_texts;
  if (options.check_space)
    require_space(context.os, target.directory(), target.space_needed(to_write, 1) + of_texts);
  if (options.dry_run) return result;
  context.progress.begin("write", result.to_write);
  write(context, *backend, result.workers, target.files_at_once(to_write), files, missing,
        [&](const RepackFile& file) { return target.writer(file); });
  context.progress.end();
  if (options.link != LinkMode::copy)
    for (const NamedSize& file : others.files) target.link(file, options.link);
  // The index comes last: a checkpoint that has one is complete.
  for (const auto& [name, text] : texts)
    if (name != kIndexName) target.write_text(name, text);
  target.write_text(std::string(kIndexName), texts.at(std::string(kIndexName)));
  return result;
}

}  // namespace planesmith
