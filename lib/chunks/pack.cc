#include "chunks/pack.h"

#include <errno.h>
#include <fmt/format.h>
#include <string.h>
#include <zstd.h>

#include <algorithm>
#include <mutex>
#include <set>

#include "base/error.h"
#include "base/parallel.h"
#include "base/text.h"
#include "base/version.h"
#include "chunks/chunk_set.h"
#include "chunks/pack_records.h"
#include "chunks/remake.h"
#include "chunks/stream_reader.h"
#include "chunks/tar.h"

namespace planesmith::chunks {
namespace {

template <typename... Values>
void add_to(Sha256& sha, const Values&... values) {
  (sha.update(fmt::format("{}\n", values)), ...);
}

// What the bytes of the parts depend on: programs, options and files,
// kept apart because a difference in each calls for another reaction.
std::string programs() {
  return fmt::format("{}, zstd {}, {}", version(), ZSTD_versionString(), tar_writer_version());
}

std::string digest_of_options(const PackOptions& options) {
  Sha256 sha;
  add_to(sha, options.level, options.frame_size, options.part_size, options.xxh3, options.sha256);
  return hex(sha.finish());
}

std::string digest_of_members(const Layout& layout) {
  Sha256 sha;
  for (const Member& member : layout.members()) {
    add_to(sha, member.path.size(), member.path, name(member.type), member.mode, member.size,
           member.target.size(), member.target, member.extents.size());
    for (const Extent& extent : member.extents) add_to(sha, extent.offset, extent.size);
  }
  return hex(sha.finish());
}

class Packing {
 public:
  Packing(const PackPlan& plan, const PackOptions& options, const Context& context)
      : plan_(plan),
        options_(options),
        context_(context),
        out_(Dir::make(context.os, options.out)),
        records_(out_, options.name, context),
        digits_(part_digits(plan.grid.parts())),
        parts_(plan.grid.parts()) {}

  PackResult run() {
    const std::string there = find_manifest(context_.os, options_.out, options_.name);
    if (options_.force)
      clear();
    else if (!there.empty())
      return complete(there);
    BlockDigests digests(plan_.layout, gate_);
    const std::size_t kept = take_over(digests);
    make_the_rest(digests, kept);
    return finish(digests, kept);
  }

 private:
  PartRange range(std::size_t part) const {
    const std::size_t first = part * plan_.grid.frames_in_part();
    return {part, first, std::min(first + plan_.grid.frames_in_part(), plan_.grid.frames())};
  }
  BlockDigests::Range content(const PartRange& range) const {
    return {plan_.grid.begin(range.first), plan_.grid.end(range.end - 1)};
  }
  std::string name_of_part(std::size_t part) const { return part_name(options_.name, part, digits_); }
  std::string path_of_part(std::size_t part) const { return out_.path_of(name_of_part(part)); }

  void clear() const;
  PackResult complete(const std::string& manifest_path);
  void compare_with_files(const ChunkManifest& there, const std::string& manifest_path) const;
  std::size_t take_over(BlockDigests& digests);
  bool usable(std::size_t part, const PartRecord& record) const;
  std::set<std::size_t> changed(const std::vector<std::size_t>& parts) const;
  std::string stamps(const PartRange& range) const;
  void make_the_rest(BlockDigests& digests, std::size_t kept);
  PackResult finish(const BlockDigests& digests, std::size_t kept);
  void read_all(const char* stage, const std::vector<std::size_t>& frames,
                const std::function<void(std::size_t frame, ConstBytes content)>& show) const;

  const PackPlan& plan_;
  const PackOptions& options_;
  const Context& context_;
  const Dir out_;
  PackRecords records_;
  const std::size_t digits_;
  mutable Gate gate_;
  std::vector<std::optional<MadePart>> parts_;
};

// Removes the manifest first, because it says that all parts are there.
void Packing::clear() const {
  std::vector<std::string> there = files_of_set(context_.os, options_.out, options_.name);
  std::stable_partition(there.begin(), there.end(),
                        [](const std::string& file) { return !set_of_manifest(file).empty(); });
  for (const std::string& file : there) out_.unlink(file);
  if (!there.empty()) out_.sync();
  records_.forget_all();
}

// Reads frames from the files with all threads.
void Packing::read_all(const char* stage, const std::vector<std::size_t>& frames,
                       const std::function<void(std::size_t, ConstBytes)>& show) const {
  std::uint64_t total = 0;
  for (const std::size_t f : frames) total += plan_.grid.size(f);
  context_.progress.begin(stage, total);
  std::vector<std::vector<std::uint8_t>> buffers(static_cast<std::size_t>(plan_.lanes.threads));
  parallel_for(frames.size(), plan_.lanes.threads, [&](std::size_t i, int worker) {
    gate_.guard([&] {
      context_.check_stop();
      auto& buffer = buffers[static_cast<std::size_t>(worker)];
      buffer.resize(plan_.grid.size(frames[i]));
      read_stream(plan_.layout, plan_.origins, context_, plan_.grid.begin(frames[i]), buffer);
      show(frames[i], buffer);
      context_.progress.advance(buffer.size());
    });
  });
  context_.progress.end();
}

bool same_member(const Member& a, const Member& b) {
  return a.path == b.path && a.type == b.type && a.mode == b.mode && a.size == b.size &&
         a.target == b.target && a.extents == b.extents && a.offset == b.offset &&
         a.data_offset == b.data_offset;
}

void Packing::compare_with_files(const ChunkManifest& there, const std::string& manifest_path) const {
  const auto other = [&](const std::string& what) {
    return Error(manifest_path,
                 fmt::format("is there already and {}; choose another --name, or replace it with -f", what));
  };
  if (there.level != options_.level || there.frame_size != options_.frame_size ||
      there.part_size != options_.part_size || there.parts[0].xxh3.has_value() != options_.xxh3 ||
      there.parts[0].sha256.empty() == options_.sha256)
    throw other("was made with other options (level, sizes of frames and parts, digests)");
  const auto &ours = plan_.layout.members(), &theirs = there.layout.members();
  for (std::size_t m = 0; m < std::max(ours.size(), theirs.size()); ++m)
    if (m >= ours.size() || m >= theirs.size() || !same_member(ours[m], theirs[m]))
      throw other(fmt::format("was made from other files: '{}' differs in name, type, mode, size or holes",
                              m < ours.size() ? ours[m].path : theirs[m].path));
  BlockDigests digests(plan_.layout, gate_);
  std::vector<std::size_t> frames(plan_.grid.frames());
  for (std::size_t f = 0; f < frames.size(); ++f) frames[f] = f;
  read_all("comparing with what is packed", frames, [&](std::size_t f, ConstBytes content) {
    digests.add(plan_.grid.begin(f), content, {0, plan_.grid.stream_size});
  });
  for (std::size_t m = 0; m < ours.size(); ++m)
    if (digests.of(m) != theirs[m].blocks)
      throw other(fmt::format("was made from other files: '{}' has another content now", ours[m].path));
}

// For a set with a manifest: makes only missing parts again, and with --recheck damaged ones.
PackResult Packing::complete(const std::string& manifest_path) {
  ChunkManifest there = [&] {
    try {
      return read_chunk_manifest(context_, manifest_path);
    } catch (const Error& error) {
      throw Error(manifest_path,
                  error.reason() + "; choose another --name, or replace it and its parts with -f");
    }
  }();
  compare_with_files(there, manifest_path);
  const std::vector<std::size_t> damaged = damaged_parts(there, options_.out, options_.recheck, context_);
  if (damaged.empty())
    context_.progress.say(fmt::format(
        "{}: complete, and made from these files; the parts have the right sizes{}", printable(manifest_path),
        options_.recheck ? " and digests" : " (--recheck also compares their contents)"));
  else
    context_.progress.say(fmt::format("{}: {} of {} parts missing or damaged; only these are made again",
                                      printable(manifest_path), damaged.size(), there.parts.size()));
  if (!damaged.empty()) remake_parts(there, out_, records_.directory(), damaged, plan_.origins, context_);
  const std::string list = digest_list_name(options_.name);
  if (options_.sha256 && (!out_.exists(list) || options_.recheck))
    out_.write_atomically(list, digest_list(there.parts));
  records_.forget_all();
  const std::size_t kept = there.parts.size() - damaged.size();
  return {std::move(there), manifest_path, kept};
}

// A digest over the stamps of the files whose data the part has: size and time show that the content is the
// same, inode and ctime that the time was not set by hand.
std::string Packing::stamps(const PartRange& range) const {
  Sha256 sha;
  const BlockDigests::Range part = content(range);
  std::size_t last = plan_.origins.size();
  plan_.layout.visit(part.begin, part.end - part.begin, [&](const Piece& piece) {
    if (piece.kind != Piece::Kind::data || piece.member == last) return;
    last = piece.member;
    const Origin& origin = plan_.origins[last];
    add_to(sha, origin.size, origin.inode, origin.mtime_ns, origin.ctime_ns);
  });
  return hex(sha.finish());
}

// Whether a recorded part is what this run would make, as far as the record and the part tell.
bool Packing::usable(std::size_t part, const PartRecord& record) const {
  const auto refuse = [&](const std::string& what) {
    return Error(path_of_part(part),
                 fmt::format("was made by a run {}; choose another --name, or replace it with -f", what));
  };
  if (record.made_by != programs())
    throw refuse(fmt::format("of other versions ({}; these are {})", record.made_by, programs()));
  if (record.options != digest_of_options(options_))
    throw refuse("with other options (level, sizes of frames and parts, digests)");
  if (record.files != digest_of_members(plan_.layout))
    throw refuse("that found other names, sizes, modes or holes in what is packed");
  const PartRange frames = range(part);
  if (record.made.file.path != name_of_part(part) || record.made.frames.size() != frames.end - frames.first)
    return false;
  const File file = File::open_read(context_.os, path_of_part(part));
  bool fine = file.size() == record.made.file.size;
  if (fine && options_.recheck) {
    const FileEntry now = digested(file, record.made.file, context_);
    fine = now.xxh3 == record.made.file.xxh3 && now.sha256 == record.made.file.sha256;
  }
  if (!fine)
    context_.progress.say(fmt::format("{}: is damaged, and made again", printable(path_of_part(part))));
  return fine;
}

// The parts with a frame that differs from the files' current contents.
std::set<std::size_t> Packing::changed(const std::vector<std::size_t>& parts) const {
  std::vector<std::size_t> frames;
  for (const std::size_t part : parts)
    for (std::size_t f = range(part).first; f < range(part).end; ++f) frames.push_back(f);
  std::set<std::size_t> found;
  std::mutex mutex;
  read_all("comparing finished parts with the files", frames, [&](std::size_t f, ConstBytes content) {
    const std::size_t part = f / plan_.grid.frames_in_part();
    if (Xxh3::of(content) == parts_[part]->frames[f - range(part).first].xxh3) return;
    const std::lock_guard lock(mutex);
    found.insert(part);
  });
  return found;
}

std::size_t Packing::take_over(BlockDigests& digests) {
  records_.forget_staged();
  std::set<std::string> known;
  std::vector<std::size_t> to_compare;
  std::vector<std::vector<Xxh3>> blocks(parts_.size());
  for (std::size_t p = 0; p < parts_.size(); ++p) {
    const bool there = out_.exists(name_of_part(p));
    const std::optional<PartRecord> record = there ? records_.read(p) : std::nullopt;
    if (!there) records_.forget(p);
    if (!record) continue;
    known.insert(name_of_part(p));
    if (!usable(p, *record)) continue;
    parts_[p] = record->made;
    blocks[p] = record->blocks;
    if (record->stamps != stamps(range(p))) to_compare.push_back(p);
  }
  for (const std::string& file : files_of_set(context_.os, options_.out, options_.name))
    if (!known.contains(file) && file != digest_list_name(options_.name))
      throw Error(
          join(options_.out, file),
          "is there already, but no record says that a run of this version made it from these files; choose "
          "another --name, or replace it with -f");
  if (!to_compare.empty()) {
    const std::set<std::size_t> other = changed(to_compare);
    context_.progress.say(fmt::format(
        "the files of {} finished parts have other inodes or times than before; their contents are "
        "those of {} of these parts{}",
        to_compare.size(), to_compare.size() - other.size(),
        other.empty() ? "" : fmt::format("; {} are made again", other.size())));
    for (const std::size_t part : other) parts_[part].reset();
  }
  std::size_t kept = 0;
  for (std::size_t p = 0; p < parts_.size(); ++p) {
    const BlockDigests::Range part = content(range(p));
    if (parts_[p] && !digests.give(part.begin, part.end, blocks[p])) parts_[p].reset();
    kept += parts_[p] ? 1 : 0;
  }
  if (kept != 0)
    context_.progress.say(
        fmt::format("{} of {} parts are finished; now making the others", kept, parts_.size()));
  return kept;
}

void Packing::make_the_rest(BlockDigests& digests, std::size_t kept) {
  const FrameSource source{plan_.layout, plan_.origins, plan_.grid, options_.level};
  MakeParts work{.xxh3 = options_.xxh3, .sha256 = options_.sha256, .digests = &digests};
  std::uint64_t total = 0;
  for (std::size_t p = 0; p < parts_.size(); ++p)
    if (!parts_[p]) {
      work.parts.push_back(range(p));
      total += content(range(p)).end - content(range(p)).begin;
    }
  if (work.parts.empty()) return;
  const std::string files = digest_of_members(plan_.layout);
  std::atomic<std::size_t> finished = kept;
  work.done = [&](const PartRange& range, MadePart made) {
    made.file.path = name_of_part(range.part);
    const BlockDigests::Range part = content(range);
    records_.write(range.part, {.made = made,
                                .blocks = digests.begun_in(part.begin, part.end),
                                .made_by = programs(),
                                .options = digest_of_options(options_),
                                .files = files,
                                .stamps = stamps(range)});
    records_.directory().rename(staged_part(range.part), out_, made.file.path);
    out_.sync();
    parts_[range.part] = std::move(made);
    ++finished;
  };
  context_.progress.begin("packing", total);
  try {
    make_parts(source, work, plan_.lanes, records_.directory(), gate_, context_);
  } catch (const Error& error) {
    if (context_.stop == nullptr || !context_.stop->requested()) throw;
    throw Error(error.code(), error.path(),
                fmt::format("{}; {} of {} parts are finished, the same command makes the others",
                            error.reason(), finished.load(), parts_.size()));
  }
  context_.progress.end();
}

PackResult Packing::finish(const BlockDigests& digests, std::size_t kept) {
  PackResult result{{.tool = version(),
                     .zstd = ZSTD_versionString(),
                     .tar = tar_writer_version(),
                     .name = options_.name,
                     .level = options_.level,
                     .frame_size = options_.frame_size,
                     .part_size = options_.part_size,
                     .part_content = plan_.grid.part_content,
                     .layout = plan_.layout},
                    out_.path_of(manifest_name(options_.name)),
                    kept};
  ChunkManifest& manifest = result.manifest;
  for (std::optional<MadePart>& part : parts_) {
    manifest.parts.push_back(std::move(part->file));
    manifest.frames.insert(manifest.frames.end(), part->frames.begin(), part->frames.end());
  }
  std::vector<Member>& members = manifest.layout.members();
  for (std::size_t m = 0; m < members.size(); ++m) members[m].blocks = digests.of(m);
  if (options_.sha256) out_.write_atomically(digest_list_name(options_.name), digest_list(manifest.parts));
  out_.write_atomically(manifest_name(options_.name), to_json(manifest));
  records_.forget_all();
  return result;
}

}  // namespace

std::string digest_list(std::span<const FileEntry> parts) {
  std::string text;
  for (const FileEntry& part : parts) text += fmt::format("{}  {}\n", part.sha256, part.path);
  return text;
}

PackResult pack(const PackPlan& plan, const PackOptions& options, const Context& context) {
  return Packing(plan, options, context).run();
}

void pack_to_stream(const PackPlan& plan, const PackOptions& options, int fd, const Context& context) {
  context.progress.begin("packing", plan.layout.size());
  make_stream({plan.layout, plan.origins, plan.grid, options.level}, plan.lanes, context,
              [&](ConstBytes frame) {
                while (!frame.empty()) {
                  const ssize_t n = context.os.write(fd, frame.data(), frame.size());
                  if (n < 0 && errno != EINTR) throw Error("standard output", strerror(errno));
                  if (n > 0) frame = frame.subspan(static_cast<std::size_t>(n));
                }
              });
  context.progress.end();
}

}  // namespace planesmith::chunks
