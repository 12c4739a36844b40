// Which members, frames and parts an unpacking needs, given what is there and what an interrupted run left.
#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "base/error.h"
#include "base/file_contents.h"
#include "base/parallel.h"
#include "base/size.h"
#include "base/space.h"
#include "base/stream.h"
#include "base/user_cache.h"
#include "chunks/frame_unpacker.h"
#include "chunks/member_filter.h"

namespace planesmith::chunks {
namespace {

constexpr const char* kState = "state.json";

Xxh3 digest_of_hole() {
  static const Xxh3 digest = Xxh3::of(std::vector<std::uint8_t>(kDigestBlock));
  return digest;
}

}  // namespace

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
      if (is_new) continue;  // only the link is wanted so far: the file gets that name
      links_.push_back(member);
      links_.back().target = made->second;
    }
  }
  if (made_as.empty() && directories_.empty() && links_.empty() && !filter.everything())
    throw Error("no member of the archive matches --include and --exclude");
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
  threads_ = FrameReader::threads(m_, context_);
}

// Identifies what is unpacked: a record of another set or another choice of members is ignored.
std::string FrameUnpacker::fingerprint() const {
  return sha256_hex(compact(Json{
      {"manifest", sha256_hex(to_json(m_))}, {"include", options_.include}, {"exclude", options_.exclude}}));
}

// Loads the record of an earlier run of the same unpacking; false: there is no such record.
bool FrameUnpacker::load_state(const Dir& staging) {
  if (feed_) journal_ = std::make_unique<FrameJournal>(staging, fingerprint(), context_);
  if (staging.exists(kState)) {
    const Json state = read_state(staging);
    if (state.value("fingerprint", "") == fingerprint()) {
      frames_done_ = std::min<std::size_t>(state.value("frames_done", std::size_t{0}), m_.frames.size());
      finished_ = state.value("finished", Json::object());
      unfinished_ = state.value("unfinished", Json::object());
      if (feed_) written_ = journal_->read(m_.frames.size());
      return true;
    }
    if (!options_.force && !state.empty())
      throw Error(staging.path_of(kState),
                  "unpacking something else was interrupted here; finish that first, or give it up with -f");
  }
  return false;
}

// For a dry run: looks at what is there without changing it.
void FrameUnpacker::look_beforehand() {
  if (!exists(context_.os, options_.out)) return;
  const Dir dir = Dir::open(context_.os, options_.out);
  std::optional<Dir> staging;
  if (const auto there = dir.look(Target::staging_name(m_.name)); there && S_ISDIR(there->st_mode)) {
    staging = dir.open_dir(Target::staging_name(m_.name));
    if (!load_state(*staging)) staging.reset();
  }
  look_for_kept_files(dir, [&](std::size_t i) { return staging && staging->exists(Target::staged(i)); });
}

// An unusable record is reported and treated as missing.
Json FrameUnpacker::read_state(const Dir& staging) const {
  try {
    const File file = staging.open_read(kState);
    // A parser needs several times the text's memory, and the frames' buffers need memory too.
    std::string text(std::min<std::uint64_t>(file.size(), context_.memory / 16), '\0');
    file.read({reinterpret_cast<std::uint8_t*>(text.data()), text.size()}, 0);
    Json state = parse_json(text, file.path(), 64, context_.memory / 4);
    if (state.is_object() && state.value("fingerprint", Json()).is_string() &&
        state.value("frames_done", Json()).is_number_unsigned())
      return state;
    throw Error(file.path(), "is not a record of this program");
  } catch (const Error& error) {
    context_.progress.say(fmt::format("{}; unpacking starts again from the beginning", error.what()));
    return Json::object();
  }
}

// Finished files are recorded with their stamps. Unfinished ones need none: other users cannot write there.
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
                                    context_.group_shared ? 0660 : 0600);
}

bool FrameUnpacker::has_contents_of(const File& file, const Member& member, Bytes buffer) const {
  if (file.size() != member.size) return false;
  Xxh3Stream hash;
  std::uint64_t data = 0;  // the file has only zeros before this offset
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

// Existing files with the right contents need no frames,
// and of the others the frames that an interrupted run already wrote are not read again.
void FrameUnpacker::look_for_kept_files(const Dir& dir, const std::function<bool(std::size_t)>& is_staged) {
  context_.progress.begin("looking at what is there", 0);
  StreamBuffers buffers(context_);
  parallel_for(jobs_.size(), buffers.workers(), [&](std::size_t i, int worker) {
    Job& job = jobs_[i];
    const Member& member = m_.layout.members()[job.member];
    const auto there = dir.look(job.path);
    if (there && S_ISREG(there->st_mode)) {
      const auto named = finished_.find(job.path);
      const bool recorded = named != finished_.end() && *named == file_stamp(*there);
      job.kept = (recorded && !options_.recheck) ||
                 has_contents_of(dir.open_read(job.path), member, buffers.of(worker));
      if (job.kept) job.stamp = file_stamp(*there);
    }
    if (there && !job.kept && !options_.force && !S_ISDIR(there->st_mode))
      throw Error(dir.path_of(job.path), "is there already with other contents; -f replaces it");
    job.staged = is_staged(i);
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
  // Parts that are removed meanwhile free space if they are on the same file system, which is not checked.
  if (options_.check_space)
    require_space(context_.os, options_.out, needed, options_.stream_delete ? result_.packed_bytes : 0);
}

}  // namespace planesmith::chunks
