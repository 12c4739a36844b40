#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"
#include "base/parallel.h"
#include "base/user_cache.h"
#include "chunks/frame_unpacker.h"
#include "chunks/in_order.h"
#include "chunks/safe_members.h"

namespace planesmith::chunks {
namespace {

constexpr std::uint64_t kBatch = 4 * kGiB;  // content between two points from which a later run can continue

}  // namespace

UnpackResult FrameUnpacker::run() {
  check_safe(m_.layout.members(), {});
  choose_members();
  choose_threads();
  if (options_.dry_run) {
    look_beforehand();
    find_needed_frames();
    check_parts();
    check_space();
    return result_;
  }
  Target target(options_.out, m_.name, options_.force, options_.preserve_modes, context_);
  check_safe(m_.layout.members(), target.on_disk());
  if (!load_state(target.staging())) target.remove_all_staged();
  try {
    look_for_kept_files(
        target.dir(), [&](std::size_t i) { return target.reopen(i, m_.layout.members()[jobs_[i].member]); });
    find_needed_frames();
    check_parts();
    check_space();
    unpack_batches(target);
    put_links_and_modes(target);
  } catch (...) {
    forget_unfinished(target);
    throw;
  }
  target.sync_directories();
  target.remove_all_staged();
  if (options_.stream_delete) remove_parts_before(m_.frames.size());
  return result_;
}

// The needed frames, cut where a later run can continue.
std::vector<std::span<const std::size_t>> FrameUnpacker::batches() const {
  std::vector<std::span<const std::size_t>> out;
  for (std::size_t begin = 0, end = 0; begin < needed_.size(); begin = end) {
    for (std::uint64_t content = 0; end < needed_.size() && content < kBatch; ++end) {
      if (options_.stream_delete && end != begin &&
          m_.frames[needed_[end]].part != m_.frames[needed_[end - 1]].part)
        break;
      content += m_.grid().size(needed_[end]);
    }
    out.push_back(std::span(needed_).subspan(begin, end - begin));
  }
  return out;
}

void FrameUnpacker::unpack_batches(Target& target) {
  const std::vector<std::span<const std::size_t>> all = batches();
  std::uint64_t total = 0;
  for (const std::size_t f : needed_) total += m_.grid().size(f);
  context_.progress.begin(feed_ ? "fetching and unpacking" : "unpacking", total);
  if (feed_) {
    for (const std::size_t f : needed_)
      if (f < written_.size()) written_[f] = false;  // one of its files needs it again
    save_state(target);                              // the journal extends this record
    journal_->begin(written_);
    feed_->expect(all);
  }
  if (input_ >= 0) stream_ = std::make_unique<ByteSource>(input_, std::vector<std::string>(), context_);
  for (const std::span<const std::size_t> batch : all) {
    unpack_frames(target, batch);
    const std::size_t done = batch.back() + 1;
    install(target, done);
    if (batch.data() != all.back().data()) {
      for (std::size_t i = installed_; i < jobs_.size() && jobs_[i].first < done; ++i)
        if (!jobs_[i].kept) target.sync_staged(i, m_.layout.members()[jobs_[i].member]);
      target.sync_directories();
      frames_done_ = std::max(frames_done_, done);
      save_state(target);
      if (feed_) journal_->begin({});
      if (options_.stream_delete) remove_parts_before(frames_done_);
    }
  }
  install(target, m_.frames.size());
  if (stream_) {  // reads to the end, so that the pipe's writer does not fail and excess bytes are noticed
    std::uint64_t rest = m_.packed_size() - std::min(m_.packed_size(), stream_->position());
    std::vector<std::uint8_t> buffer(kMiB);
    while (const std::size_t n = stream_->read(buffer)) {
      if (n > rest)
        throw stream_->error(m_.packed_size(), ErrorCode::difference,
                             "there is more data than the manifest describes");
      rest -= n;
    }
    if (rest != 0)
      throw stream_->error(stream_->position(), ErrorCode::difference,
                           fmt::format("ends here, {} bytes too early", rest));
  }
  context_.progress.end();
}

// Each thread writes into files of its own while there are enough files,
// because two threads that write into one file wait for each other.
void FrameUnpacker::unpack_frames(const Target& target, std::span<const std::size_t> frames) {
  std::vector<std::vector<std::size_t>> by_file;
  std::size_t last = m_.layout.members().size() + 1;
  for (const std::size_t f : frames) {
    const std::size_t member = m_.layout.member_at(m_.grid().begin(f));
    if (by_file.empty() || (member != last && !stream_ && !feed_)) by_file.emplace_back();
    by_file.back().push_back(f);
    last = member;
  }
  std::vector<std::size_t> lengths;
  for (const auto& of_file : by_file) lengths.push_back(of_file.size());
  Gate gate;
  std::size_t next = 0;  // index of the next frame to read from the stream
  std::vector<std::unique_ptr<FrameReader>> readers(static_cast<std::size_t>(threads_));
  const auto threads = static_cast<std::size_t>(threads_);
  const auto work = [&](std::size_t file, std::size_t i, int w, std::size_t) {
    context_.check_stop();
    auto& reader = readers[static_cast<std::size_t>(w)];
    if (!reader) reader = std::make_unique<FrameReader>(m_);
    std::size_t f = by_file[file][i];
    ConstBytes frame;
    if (feed_) {
      const FrameFeed::Arrived arrived = feed_->next(frames.back() + 1);
      f = arrived.f;
      frame = arrived.bytes;
    }
    const std::string& part =
        stream_ || feed_ ? m_.parts[m_.frames[f].part].path : set_.parts[m_.frames[f].part];
    if (stream_) {
      auto lock = gate.lock();
      gate.wait(lock, [&] { return next == i; });
      lock.unlock();
      frame = reader->read(*stream_, f);
      lock.lock();
      ++next;
      gate.changed();
    } else if (!feed_) {
      frame = reader->read(File::open_read(context_.os, part), f);
    }
    const ConstBytes content = content_of(*reader, frame, f, part);
    write_frame(target, f, content);
    if (feed_) {
      journal_->add(f);
      feed_->done(f);
    }
    context_.progress.advance(content.size());
  };
  side_by_side(gate, lengths, {threads_, threads, threads}, work,
               [](std::size_t, std::size_t, std::size_t) {});
}

ConstBytes FrameUnpacker::content_of(FrameReader& reader, ConstBytes frame, std::size_t f,
                                     const std::string& part) const {
  for (;;) {
    try {
      return reader.content(frame, f, part);
    } catch (const Error& error) {
      if (!feed_ || error.code() != ErrorCode::difference) throw;
      context_.progress.say(error.what());
      if (!feed_->read_again(f, frame))
        throw Error(
            ErrorCode::difference, part,
            fmt::format("frame {} was wrong at every try ({}); the part on the server is damaged or was "
                        "replaced. Finished work is kept, and the same command continues from there",
                        f, error.reason()))
            .at(m_.frames[f].offset);
    }
  }
}

void FrameUnpacker::write_frame(const Target& target, std::size_t f, ConstBytes content) const {
  const std::uint64_t begin = m_.grid().begin(f);
  m_.layout.visit(begin, content.size(), [&](const Piece& piece) {
    if (piece.kind != Piece::Kind::data || job_of_[piece.member] == jobs_.size()) return;
    const Job& job = jobs_[job_of_[piece.member]];
    if (!job.kept && f >= job.from)
      target.write(job_of_[piece.member], m_.layout.members()[piece.member], piece.offset,
                   content.subspan(piece.stream_offset - begin, piece.size));
  });
}

// Gives the complete files their final names.
void FrameUnpacker::install(Target& target, std::size_t frames_done) {
  const std::size_t begin = installed_;
  for (; installed_ < jobs_.size() && jobs_[installed_].end <= frames_done; ++installed_)
    target.make_directory(parent_of(jobs_[installed_].path));
  // Files in the record, whose parts may be removed already,
  // must not be moved into a directory that is not durable yet.
  if (frames_done_ != 0 && installed_ != begin) target.sync_directories();
  parallel_for(installed_ - begin, threads_, [&](std::size_t i, int) {
    const Job& job = jobs_[begin + i];
    Member member = m_.layout.members()[job.member];
    member.path = job.path;
    if (job.kept) {
      target.set_mode(member);
      jobs_[begin + i].stamp = file_stamp(target.dir().status(member.path));
      return;
    }
    const std::uint64_t data_end =
        member.extents.empty() ? 0 : member.extents.back().offset + member.extents.back().size;
    if (data_end != member.size || member.size == 0) target.set_size(begin + i, member, member.size);
    target.put_file(begin + i, member);
    jobs_[begin + i].stamp = file_stamp(target.dir().status(member.path));
  });
}

void FrameUnpacker::put_links_and_modes(Target& target) {
  for (const Member& directory : directories_) target.make_directory(directory.path);
  for (std::size_t i = 0; i < links_.size(); ++i) {
    target.make_directory(parent_of(links_[i].path));
    target.put_link(jobs_.size() + i, links_[i]);
  }
  for (std::size_t i = directories_.size(); i-- > 0;) target.set_mode(directories_[i]);  // inner ones first
}

// Removes staged files from which a later run could not continue.
void FrameUnpacker::forget_unfinished(const Target& target) const {
  if (feed_ && frames_done_ + written_.size() != 0) return;  // the journal says what a later run can use
  for (std::size_t i = 0; i < jobs_.size() + links_.size(); ++i)
    if (i >= jobs_.size() || jobs_[i].first >= frames_done_ || jobs_[i].end <= frames_done_)
      target.remove_staged(i);
  if (frames_done_ == 0) target.give_up();
}

void FrameUnpacker::remove_parts_before(std::size_t frame) {
  for (; parts_removed_ < m_.parts.size(); ++parts_removed_) {
    const bool done = frame == m_.frames.size() || m_.frames[frame].part > parts_removed_;
    if (!done) break;
    if (!set_.parts[parts_removed_].empty()) remove_file(context_.os, set_.parts[parts_removed_]);
  }
}

UnpackResult unpack_frames(const ChunkSet& set, int input, const UnpackOptions& options,
                           const Context& context, FrameFeed* feed) {
  return FrameUnpacker(set, input, options, context, feed).run();
}

}  // namespace planesmith::chunks
