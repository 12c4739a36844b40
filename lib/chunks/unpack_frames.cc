// Unpacking with a manifest: every frame is known, so they are read in any order and by several threads.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <memory>

#include "base/error.h"
#include "base/json.h"
#include "base/parallel.h"
#include "base/paths.h"
#include "base/size.h"
#include "base/stream.h"
#include "base/user_cache.h"
#include "chunks/byte_source.h"
#include "chunks/frame_journal.h"
#include "chunks/frame_reader.h"
#include "chunks/in_order.h"
#include "chunks/member_filter.h"
#include "chunks/safe_members.h"
#include "chunks/target.h"
#include "chunks/unpack.h"

namespace planesmith::chunks {
namespace {

constexpr std::uint64_t kBatch = 4 * kGiB;  // content between two points that a later run can go on from
constexpr const char* kState = "state.json";

Xxh3 digest_of_hole() {
  static const Xxh3 digest = Xxh3::of(std::vector<std::uint8_t>(kDigestBlock));
  return digest;
}

// A file to be made.
struct Job {
  std::size_t member = 0;  // whose data
  std::string path{};      // its own, or that of a wanted hard link where the file itself is not wanted
  std::size_t first = 0, end = 0;  // the frames that hold its data
  std::size_t from = 0;            // needed from here on; what comes before is in the staged file already
  bool kept = false;               // there already
  bool staged = false;             // an earlier run has left what it had of it
  Json stamp{};                    // of the finished file
};

class FrameUnpacker {
 public:
  FrameUnpacker(const ChunkSet& set, int input, const UnpackOptions& options, const Context& context,
                FrameFeed* feed)
      : m_(*set.manifest), set_(set), input_(input), options_(options), context_(context), feed_(feed) {}

  UnpackResult run() {
    check_safe(m_.layout.members(), {});
    choose_members();
    choose_threads();
    if (options_.dry_run) {
      find_needed_frames();
      check_parts();
      check_space();
      return result_;
    }
    Target target(options_.out, m_.name, options_.force, options_.preserve_modes, context_);
    check_safe(m_.layout.members(), target.on_disk());
    load_state(target);
    try {
      look_for_kept_files(target);
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

 private:
  void choose_members();
  void choose_threads();
  std::string fingerprint() const;
  void load_state(const Target& target);
  Json read_state(const Dir& staging) const;
  void save_state(const Target& target) const;
  void look_for_kept_files(const Target& target);
  bool has_contents_of(const File& file, const Member& member, Bytes buffer) const;
  void find_needed_frames();
  void check_parts() const;
  void check_space() const;
  void unpack_batches(Target& target);
  void unpack_frames(const Target& target, std::span<const std::size_t> frames);
  ConstBytes content_of(FrameReader& reader, ConstBytes frame, std::size_t f, const std::string& part) const;
  void write_frame(const Target& target, std::size_t f, ConstBytes content) const;
  void install(Target& target, std::size_t frames_done);
  void put_links_and_modes(Target& target);
  void forget_unfinished(const Target& target) const;
  void remove_parts_before(std::size_t frame);

  const ChunkManifest& m_;
  const ChunkSet& set_;
  const int input_;
  const UnpackOptions& options_;
  const Context& context_;
  UnpackResult result_;
  int threads_ = 1;
  std::vector<Job> jobs_;                    // in the order of their data
  std::vector<std::size_t> job_of_;          // by member; jobs_.size(): none
  std::vector<Member> directories_, links_;  // wanted; hard links point to jobs' paths
  Json finished_ = Json::object();           // by path, of an earlier run: stamps of files
  Json unfinished_ = Json::object();         // by path: which staged file
  std::vector<std::size_t> needed_;          // frames, ascending
  std::size_t frames_done_ = 0;              // their content is durable
  std::size_t installed_ = 0;                // jobs
  std::size_t parts_removed_ = 0;
  std::unique_ptr<ByteSource> stream_;  // where the parts come from a descriptor
  FrameFeed* const feed_;               // where they come from elsewhere
  std::unique_ptr<FrameJournal> journal_;
  std::vector<bool> written_;  // frames that the journal tells of; empty without a feed
};

void FrameUnpacker::choose_members() {
  const MemberFilter filter(options_.include, options_.exclude);
  const auto& members = m_.layout.members();
  std::map<std::string, std::size_t> file_at;  // every file of the archive
  std::map<std::size_t, std::string> made_as;  // wanted: file -> the name it gets
  for (std::size_t i = 0; i < members.size(); ++i) {
    const Member& member = members[i];
    if (member.type == MemberType::file) file_at[member.path] = i;
    if (!filter.wants(member.path)) continue;
    if (member.type == MemberType::directory) directories_.push_back(member);
    if (member.type == MemberType::symlink) links_.push_back(member);
    if (member.type == MemberType::file) made_as[i] = member.path;
    if (member.type == MemberType::hardlink) {
      const auto [made, is_new] = made_as.try_emplace(file_at.at(member.target), member.path);
      if (is_new) continue;  // only another name of the file is wanted: the file gets that name
      links_.push_back(member);
      links_.back().target = made->second;
    }
  }
  if (made_as.empty() && directories_.empty() && links_.empty() && !filter.everything())
    throw Error("no member of the archive is wanted by --include and --exclude");
  job_of_.assign(members.size(), made_as.size());
  for (const auto& [i, path] : made_as) {
    const Member& member = members[i];
    const auto [first, end] =
        m_.grid().frames_of(member.data_offset, member.data_offset + member.data_size());
    job_of_[i] = jobs_.size();
    jobs_.push_back({.member = i, .path = path, .first = first, .end = end, .from = first});
    ++result_.files;
    result_.bytes += member.size;
  }
}

void FrameUnpacker::choose_threads() {
  const std::uint64_t each = FrameReader::memory(m_);
  if (each > context_.memory)
    throw Error(ErrorCode::usage, "",
                fmt::format("--memory: {} is too little; the frames of this set need {} or more",
                            exact_size(context_.memory), exact_size(each)));
  threads_ = static_cast<int>(std::min<std::uint64_t>(
      static_cast<std::uint64_t>(std::max(context_.threads, 1)), context_.memory / each));
}

// Of what is unpacked: a record of another set, or of another choice of members, is of no use.
std::string FrameUnpacker::fingerprint() const {
  return sha256_hex(compact(Json{
      {"manifest", sha256_hex(to_json(m_))}, {"include", options_.include}, {"exclude", options_.exclude}}));
}

void FrameUnpacker::load_state(const Target& target) {
  const Dir& staging = target.staging();
  if (feed_) journal_ = std::make_unique<FrameJournal>(staging, fingerprint(), context_);
  if (staging.exists(kState)) {
    const Json state = read_state(staging);
    if (state.value("fingerprint", "") == fingerprint()) {
      frames_done_ = std::min<std::size_t>(state.value("frames_done", std::size_t{0}), m_.frames.size());
      finished_ = state.value("finished", Json::object());
      unfinished_ = state.value("unfinished", Json::object());
      if (feed_) written_ = journal_->read(m_.frames.size());
      return;
    }
    if (!options_.force && !state.empty())
      throw Error(
          staging.path_of(kState),
          "an unpacking of something else was interrupted here; finish that first, or give it up with -f");
  }
  target.remove_all_staged();
}

// Ours, but whatever is in it: what cannot be used is told of, and counts as nothing.
Json FrameUnpacker::read_state(const Dir& staging) const {
  try {
    const File file = staging.open_read(kState);
    std::string text(std::min<std::uint64_t>(file.size(), context_.memory / 4), '\0');
    file.read({reinterpret_cast<std::uint8_t*>(text.data()), text.size()}, 0);
    Json state = parse_json(text, file.path(), 64, context_.memory / 2);
    if (state.is_object() && state.value("fingerprint", Json()).is_string() &&
        state.value("frames_done", Json()).is_number_unsigned())
      return state;
    throw Error(file.path(), "is not a record of this program");
  } catch (const Error& error) {
    context_.progress.say(fmt::format("{}; unpacking begins anew", error.what()));
    return Json::object();
  }
}

// A record counts for the very files that it names. Unfinished ones lie where no one else can write.
void FrameUnpacker::save_state(const Target& target) const {
  Json finished = finished_, unfinished = Json::object();
  for (std::size_t i = 0; i < jobs_.size(); ++i) {
    if (!jobs_[i].stamp.is_null()) finished[jobs_[i].path] = jobs_[i].stamp;
    if (jobs_[i].first >= frames_done_ || jobs_[i].end <= frames_done_ || jobs_[i].kept) continue;
    if (target.staging().exists(Target::staged(i))) unfinished[jobs_[i].path] = i;
  }
  target.staging().write_atomically(kState,
                                    pretty(Json{{"fingerprint", fingerprint()},
                                                {"frames_done", frames_done_},
                                                {"finished", std::move(finished)},
                                                {"unfinished", std::move(unfinished)}}),
                                    0600);
}

bool FrameUnpacker::has_contents_of(const File& file, const Member& member, Bytes buffer) const {
  if (file.size() != member.size) return false;
  Xxh3Stream hash;
  std::uint64_t data = 0;  // nothing but zeros before it
  for (std::size_t b = 0; b < member.blocks.size(); ++b) {
    const std::uint64_t at = b * kDigestBlock, size = std::min(kDigestBlock, member.size - at);
    if (at >= data) data = next_data(context_, file, at, member.size);
    if (at + size <= data && size == kDigestBlock) {
      if (member.blocks[b] != digest_of_hole()) return false;
      continue;
    }
    stream(context_, file, at, size, buffer, [&](ConstBytes piece) { hash.update(piece); });
    if (hash.finish() != member.blocks[b]) return false;
  }
  return true;
}

// Files that are there already need no frames; of the others, what an interrupted run has staged is not read
// again.
void FrameUnpacker::look_for_kept_files(const Target& target) {
  context_.progress.begin("looking at what is there", 0);
  StreamBuffers buffers(context_);
  parallel_for(jobs_.size(), buffers.workers(), [&](std::size_t i, int worker) {
    Job& job = jobs_[i];
    const Member& member = m_.layout.members()[job.member];
    const auto there = target.dir().look(job.path);
    if (there && S_ISREG(there->st_mode)) {
      const auto named = finished_.find(job.path);
      const bool recorded = named != finished_.end() && *named == file_stamp(*there);
      job.kept = (recorded && !options_.recheck) ||
                 has_contents_of(target.dir().open_read(job.path), member, buffers.of(worker));
      if (job.kept) job.stamp = file_stamp(*there);
    }
    if (there && !job.kept && !options_.force && !S_ISDIR(there->st_mode))
      throw Error(target.dir().path_of(job.path), "is there already with other contents; -f replaces it");
    job.staged = target.reopen(i);
    if (!job.staged || job.kept || job.first >= frames_done_ || frames_done_ >= job.end) return;
    if (unfinished_.contains(job.path)) job.from = frames_done_;
  });
  context_.progress.end();
  for (const Job& job : jobs_) result_.kept += job.kept ? 1 : 0;
}

void FrameUnpacker::find_needed_frames() {
  std::vector<bool> needed(m_.frames.size(), false);
  for (const Job& job : jobs_)
    for (std::size_t f = job.from; f < job.end && !job.kept; ++f)
      needed[f] = needed[f] || !(job.staged && f < written_.size() && written_[f]);
  for (std::size_t f = 0; f < needed.size(); ++f)
    if (needed[f]) {
      needed_.push_back(f);
      result_.packed_bytes += m_.frames[f].size;
    }
  result_.frames = needed_.size();
}

void FrameUnpacker::check_parts() const {
  if (input_ >= 0 || feed_) return;
  for (std::size_t i = 0; i < needed_.size(); ++i) {
    const std::size_t p = m_.frames[needed_[i]].part;
    if (i != 0 && m_.frames[needed_[i - 1]].part == p) continue;
    const FileEntry& part = m_.parts[p];
    if (set_.parts[p].empty())
      throw Error(part.path, "this part is missing; fetch it and run the same command again");
    const std::uint64_t size = File::open_read(context_.os, set_.parts[p]).size();
    if (size != part.size)
      throw Error(ErrorCode::difference, set_.parts[p],
                  fmt::format("has {} bytes instead of {}; fetch it again", size, part.size));
  }
}

void FrameUnpacker::check_space() const {
  std::uint64_t needed = 0;
  for (const Job& job : jobs_)
    if (!job.kept && job.from == job.first && !(feed_ && job.staged))
      needed += m_.layout.members()[job.member].data_size();
  // Parts that are removed on the way make room, if they are on the same file system; that is not looked
  // into.
  const std::uint64_t free = free_space(context_.os, nearest_existing(context_.os, options_.out)) +
                             (options_.stream_delete ? result_.packed_bytes : 0);
  if (needed > free)
    throw Error(options_.out,
                fmt::format("has {} free, {} are needed", exact_size(free), exact_size(needed)));
}

void FrameUnpacker::unpack_batches(Target& target) {
  std::uint64_t total = 0;
  for (const std::size_t f : needed_) total += m_.grid().size(f);
  context_.progress.begin(feed_ ? "fetching and unpacking" : "unpacking", total);
  if (feed_) {
    for (const std::size_t f : needed_)
      if (f < written_.size()) written_[f] = false;  // for one of its files it has to come again
    save_state(target);                              // the journal belongs to it
    journal_->begin(written_);
    feed_->expect(needed_);
  }
  if (input_ >= 0) stream_ = std::make_unique<ByteSource>(input_, std::vector<std::string>(), context_);
  for (std::size_t begin = 0; begin < needed_.size();) {
    std::size_t end = begin;
    for (std::uint64_t content = 0; end < needed_.size() && content < kBatch; ++end) {
      if (options_.stream_delete && end != begin &&
          m_.frames[needed_[end]].part != m_.frames[needed_[end - 1]].part)
        break;
      content += m_.grid().size(needed_[end]);
    }
    unpack_frames(target, std::span(needed_).subspan(begin, end - begin));
    const std::size_t done = needed_[end - 1] + 1;
    install(target, done);
    if (end < needed_.size()) {
      for (std::size_t i = installed_; i < jobs_.size() && jobs_[i].first < done; ++i)
        if (!jobs_[i].kept) target.sync_staged(i);
      target.sync_directories();
      frames_done_ = std::max(frames_done_, done);
      save_state(target);
      if (feed_) journal_->begin({});
      if (options_.stream_delete) remove_parts_before(frames_done_);
    }
    begin = end;
  }
  install(target, m_.frames.size());
  if (stream_) {  // the one that writes to the pipe shall not fail, nor have written too much unnoticed
    std::uint64_t rest = m_.packed_size() - std::min(m_.packed_size(), stream_->position());
    std::vector<std::uint8_t> buffer(kMiB);
    while (const std::size_t n = stream_->read(buffer)) {
      if (n > rest)
        throw stream_->error(m_.packed_size(), ErrorCode::difference,
                             "there is more than the manifest tells of");
      rest -= n;
    }
    if (rest != 0)
      throw stream_->error(stream_->position(), ErrorCode::difference,
                           fmt::format("ends here, {} bytes too early", rest));
  }
  context_.progress.end();
}

// Threads write into files of their own as long as there are enough of them: two that write into one wait for
// each other.
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
  std::size_t next = 0;  // to be read from the stream
  std::vector<std::unique_ptr<FrameReader>> readers(static_cast<std::size_t>(threads_));
  const auto threads = static_cast<std::size_t>(threads_);
  const auto work = [&](std::size_t file, std::size_t i, int w, std::size_t) {
    context_.check_stop();
    auto& reader = readers[static_cast<std::size_t>(w)];
    if (!reader) reader = std::make_unique<FrameReader>(m_);
    const std::size_t f = by_file[file][i];
    const std::string& part =
        stream_ || feed_ ? m_.parts[m_.frames[f].part].path : set_.parts[m_.frames[f].part];
    ConstBytes frame;
    if (feed_) {
      frame = feed_->read(f);
    } else if (stream_) {
      auto lock = gate.lock();
      gate.wait(lock, [&] { return next == i; });
      lock.unlock();
      frame = reader->read(*stream_, f);
      lock.lock();
      ++next;
      gate.changed();
    } else {
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
        throw Error(ErrorCode::difference, part,
                    fmt::format("frame {} came wrong every time; the part there is damaged or was replaced. "
                                "What is right is kept: the same command goes on from there",
                                f))
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
      target.write(job_of_[piece.member], piece.offset,
                   content.subspan(piece.stream_offset - begin, piece.size));
  });
}

// Gives the files whose data are complete their names.
void FrameUnpacker::install(Target& target, std::size_t frames_done) {
  const std::size_t begin = installed_;
  for (; installed_ < jobs_.size() && jobs_[installed_].end <= frames_done; ++installed_)
    target.make_directory(parent_of(jobs_[installed_].path));
  // What the record tells of, and whose part may be gone, is not moved into a directory that a crash takes
  // away.
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
    if (data_end != member.size || member.size == 0) target.set_size(begin + i, member.size);
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
  for (std::size_t i = directories_.size(); i-- > 0;)
    target.set_mode(directories_[i]);  // what is inside before what is around it
}

// What a later run could not go on from is not left behind.
void FrameUnpacker::forget_unfinished(const Target& target) const {
  if (feed_ && frames_done_ + written_.size() != 0) return;  // the journal tells what is of use
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

}  // namespace

UnpackResult unpack_frames(const ChunkSet& set, int input, const UnpackOptions& options,
                           const Context& context, FrameFeed* feed) {
  return FrameUnpacker(set, input, options, context, feed).run();
}

}  // namespace planesmith::chunks
