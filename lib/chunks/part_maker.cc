#include "chunks/part_maker.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>

#include "base/error.h"
#include "base/size.h"
#include "chunks/frame.h"
#include "chunks/stream_reader.h"

namespace planesmith::chunks {
namespace {

using Buffer = std::unique_ptr<std::uint8_t[]>;
Buffer new_buffer(std::uint64_t size) {
  return std::make_unique_for_overwrite<std::uint8_t[]>(size);
}

// One part while it is written; removed again unless it is finished.
class PartFile {
 public:
  PartFile(const Dir& directory, const PartRange& range, bool xxh3, bool sha256)
      : directory_(directory),
        name_(staged_part(range.part)),
        part_(range.part),
        file_(directory.create_instead(name_)),
        digests_(xxh3, sha256) {}
  PartFile(const PartFile&) = delete;
  ~PartFile() {
    if (finished_) return;
    try {
      directory_.unlink(name_);
    } catch (const Error&) {  // another error is being thrown, and is the one to report
    }
  }

  void append(ConstBytes frame, const Xxh3& content) {
    constexpr std::uint64_t kWriteback = 32 * kMiB;  // writes dirty pages in strides, not all at the end
    file_.write(frame, size_);
    digests_.update(frame);
    made_.frames.push_back({part_, size_, frame.size(), content});
    size_ += frame.size();
    if (size_ - started_ < kWriteback) return;
    file_.start_writeback(started_, size_ - started_);
    started_ = size_;
  }

  MadePart finish() {
    made_.file.size = size_;
    digests_.finish(made_.file);
    file_.sync();
    file_.close();
    finished_ = true;
    return std::move(made_);
  }

 private:
  const Dir& directory_;
  const std::string name_;
  const std::size_t part_;
  File file_;
  FileDigests digests_;
  MadePart made_;
  std::uint64_t size_ = 0, started_ = 0;  // bytes written, and bytes whose writeback has started
  bool finished_ = false;
};

// Reads and compresses frames in buffers of threads and slots.
class Maker {
 public:
  struct Slot {
    Buffer frame;
    std::size_t size = 0;
    Xxh3 content;
    ConstBytes bytes() const { return {frame.get(), size}; }
  };

  Maker(const FrameSource& source, const Lanes& lanes, const Context& context)
      : source_(source),
        context_(context),
        workers_(static_cast<std::size_t>(lanes.threads)),
        slots_(lanes.slots),
        content_(std::min(source.grid.frame_size, source.grid.stream_size)) {}

  const Slot& slot(std::size_t s) const { return slots_[s]; }

  // Reads frame f and compresses it into the slot; returns its content, valid until the thread's next frame.
  ConstBytes make(std::size_t f, int worker, std::size_t s) {
    context_.check_stop();
    auto& mine = workers_[static_cast<std::size_t>(worker)];
    if (!mine) mine.reset(new Worker{Compressor(source_.level), new_buffer(content_)});
    Slot& slot = slots_[s];
    if (!slot.frame) slot.frame = new_buffer(frame_bound(content_));
    const Bytes content(mine->content.get(), source_.grid.size(f));
    read_stream(source_.layout, source_.origins, context_, source_.grid.begin(f), content);
    slot.content = Xxh3::of(content);
    slot.size = mine->compressor.compress(content, Bytes(slot.frame.get(), frame_bound(content_)), context_);
    return content;
  }

 private:
  struct Worker {
    Compressor compressor;
    Buffer content;
  };
  const FrameSource& source_;
  const Context& context_;
  std::vector<std::unique_ptr<Worker>> workers_;
  std::vector<Slot> slots_;
  const std::uint64_t content_;
};

// The digest of a block that a part's end cuts through belongs to the part in which the block begins. That
// part reads the rest of the block too, so that the next part does not have to wait for it.
void finish_block(const FrameSource& source, BlockDigests& digests, BlockDigests::Range part,
                  const Context& context) {
  constexpr std::uint64_t kStep = kMiB;
  const std::uint64_t end = digests.block_end(part.end);
  std::vector<std::uint8_t> buffer(std::min(kStep, end - part.end));
  for (std::uint64_t at = part.end; at < end; at += kStep) {
    const Bytes bytes = Bytes(buffer).first(std::min(kStep, end - at));
    read_stream(source.layout, source.origins, context, at, bytes);
    digests.add(at, bytes, part);
  }
}

}  // namespace

FileDigests::FileDigests(bool xxh3, bool sha256) : want_xxh3_(xxh3) {
  if (sha256) sha256_.emplace();
}

void FileDigests::update(ConstBytes bytes) {
  if (sha256_) sha256_->update(bytes);
  while (want_xxh3_ && !bytes.empty()) {
    const auto n = std::min<std::uint64_t>(bytes.size(), kTreeBlock - in_block_);
    block_.update(bytes.first(n));
    bytes = bytes.subspan(n);
    in_block_ += n;
    if (in_block_ < kTreeBlock) break;
    blocks_.push_back(block_.finish());
    in_block_ = 0;
  }
}

void FileDigests::finish(FileEntry& file) {
  if (sha256_) file.sha256 = hex(sha256_->finish());
  if (!want_xxh3_) return;
  if (in_block_ != 0) blocks_.push_back(block_.finish());
  file.blocks = std::move(blocks_);
  file.xxh3 = combine(file.blocks);
}

FileEntry digested(const File& file, FileEntry like, const Context& context) {
  FileDigests digests(like.xxh3.has_value(), !like.sha256.empty());
  std::vector<std::uint8_t> buffer(kMiB);
  for (std::uint64_t at = 0; at < like.size; at += buffer.size()) {
    context.check_stop();
    const Bytes bytes = Bytes(buffer).first(std::min<std::uint64_t>(buffer.size(), like.size - at));
    file.read(bytes, at);
    digests.update(bytes);
    context.progress.advance(bytes.size());
  }
  digests.finish(like);
  return like;
}

Lanes lanes_for(const FrameGrid& grid, int level, std::size_t parts, const Context& context,
                std::uint64_t& memory) {
  const std::uint64_t content = std::min(grid.frame_size, grid.stream_size);
  Lanes lanes;
  lanes.threads = static_cast<int>(
      std::clamp<std::size_t>(grid.frames(), 1, static_cast<std::size_t>(std::max(context.threads, 1))));
  for (;; --lanes.threads) {
    // A single thread takes its own frame at once; several threads should seldom wait for each other.
    lanes.slots = lanes.threads == 1 ? 1 : static_cast<std::size_t>(lanes.threads) + 2;
    memory = static_cast<std::uint64_t>(lanes.threads) * (content + Compressor::memory(level, content)) +
             lanes.slots * frame_bound(content);
    if (memory <= context.memory) break;
    if (lanes.threads == 1)
      throw Error(
          ErrorCode::usage, "",
          fmt::format("--memory: {} is too little; frames of {} at level {} need {} or more",
                      exact_size(context.memory), short_size(grid.frame_size), level, exact_size(memory)));
  }
  // One thread at a time digests and writes a part. It keeps up with two threads that compress, but not with
  // one that only copies. No more parts than that, because a stop loses the parts in progress.
  const auto threads = static_cast<std::size_t>(lanes.threads);
  lanes.at_once =
      std::clamp<std::size_t>(level == 0 ? threads : (threads + 1) / 2, 1, std::max<std::size_t>(parts, 1));
  return lanes;
}

std::string staged_part(std::size_t part) {
  return fmt::format("{:03}", part);
}

void make_parts(const FrameSource& source, const MakeParts& work, const Lanes& lanes, const Dir& directory,
                Gate& gate, const Context& context) {
  Maker maker(source, lanes, context);
  std::vector<std::unique_ptr<PartFile>> files(work.parts.size());
  std::vector<std::size_t> lengths;
  for (const PartRange& range : work.parts) lengths.push_back(range.end - range.first);
  side_by_side(
      gate, lengths, lanes,
      [&](std::size_t p, std::size_t i, int worker, std::size_t s) {
        const PartRange& range = work.parts[p];
        const std::size_t f = range.first + i;
        const ConstBytes content = maker.make(f, worker, s);
        if (work.check) work.check(f, maker.slot(s).content);
        if (work.digests == nullptr) return;
        const BlockDigests::Range part{source.grid.begin(range.first), source.grid.end(range.end - 1)};
        work.digests->add(source.grid.begin(f), content, part);
        if (f + 1 == range.end) finish_block(source, *work.digests, part, context);
      },
      [&](std::size_t p, std::size_t i, std::size_t s) {
        const PartRange& range = work.parts[p];
        if (i == 0) files[p] = std::make_unique<PartFile>(directory, range, work.xxh3, work.sha256);
        files[p]->append(maker.slot(s).bytes(), maker.slot(s).content);
        context.progress.advance(source.grid.size(range.first + i));
        if (range.first + i + 1 != range.end) return;
        work.done(range, files[p]->finish());
        files[p].reset();
      });
}

void make_stream(const FrameSource& source, const Lanes& lanes, const Context& context,
                 const std::function<void(ConstBytes frame)>& take) {
  Gate gate;
  Maker maker(source, lanes, context);
  side_by_side(
      gate, {source.grid.frames()}, lanes,
      [&](std::size_t, std::size_t f, int worker, std::size_t s) { maker.make(f, worker, s); },
      [&](std::size_t, std::size_t f, std::size_t s) {
        take(maker.slot(s).bytes());
        context.progress.advance(source.grid.size(f));
      });
}

}  // namespace planesmith::chunks
