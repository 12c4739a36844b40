#include "chunks/remake.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <mutex>

#include "base/error.h"
#include "base/parallel.h"
#include "base/paths.h"
#include "base/size.h"
#include "base/text.h"
#include "chunks/pack_records.h"

namespace planesmith::chunks {
namespace {

PartRange range_of(const ChunkManifest& manifest, std::size_t part) {
  const auto less = [](const FrameEntry& frame, std::size_t p) { return frame.part < p; };
  const auto begin = std::lower_bound(manifest.frames.begin(), manifest.frames.end(), part, less),
             end = std::lower_bound(begin, manifest.frames.end(), part + 1, less);
  return {part, static_cast<std::size_t>(begin - manifest.frames.begin()),
          static_cast<std::size_t>(end - manifest.frames.begin())};
}

// The members' files at or below the source,
// which is what was packed (maybe renamed) or the directory that holds it.
std::vector<Origin> origins_below(const ChunkManifest& manifest, const std::vector<std::size_t>& parts,
                                  const std::string& source, const Context& context) {
  const std::vector<Member>& members = manifest.layout.members();
  const auto rest = [&](const Member& member) { return member.path.substr(members[0].path.size()); };
  bool one_top = !members.empty();
  for (const Member& member : members) one_top = one_top && is_inside(member.path, members[0].path);
  std::vector<Origin> origins(members.size());
  std::vector<bool> wanted(members.size(), false);
  for (const std::size_t part : parts) {
    const PartRange range = range_of(manifest, part);
    manifest.layout.visit(manifest.grid().begin(range.first),
                          manifest.grid().end(range.end - 1) - manifest.grid().begin(range.first),
                          [&](const Piece& piece) {
                            if (piece.kind == Piece::Kind::data) wanted[piece.member] = true;
                          });
  }
  for (std::size_t m = 0; m < members.size(); ++m) {
    if (!wanted[m]) continue;
    std::string path = one_top ? source + rest(members[m]) : join(source, members[m].path);
    if (one_top && !exists(context.os, path)) path = join(source, members[m].path);
    if (!exists(context.os, path))
      throw Error(path, fmt::format("is missing; '{}' was packed into {}", members[m].path, manifest.name));
    origins[m] = origin_of(path, status(context.os, path));
    if (origins[m].size != members[m].size)
      throw Error(path, fmt::format("has {} bytes, {} were packed", origins[m].size, members[m].size));
  }
  return origins;
}

}  // namespace

std::vector<std::size_t> damaged_parts(const ChunkManifest& manifest, const std::string& dir, bool content,
                                       const Context& context) {
  std::vector<std::size_t> found, to_read;
  for (std::size_t p = 0; p < manifest.parts.size(); ++p) {
    const std::string path = join(dir, manifest.parts[p].path);
    if (!exists(context.os, path) || File::open_read(context.os, path).size() != manifest.parts[p].size)
      found.push_back(p);
    else if (content)
      to_read.push_back(p);
  }
  if (!to_read.empty())
    context.progress.begin("comparing the parts with their digests", manifest.packed_size());
  std::mutex mutex;
  parallel_for(to_read.size(), context.threads, [&](std::size_t i, int) {
    const FileEntry& part = manifest.parts[to_read[i]];
    const FileEntry now = digested(File::open_read(context.os, join(dir, part.path)), part, context);
    if (now.xxh3 == part.xxh3 && now.sha256 == part.sha256) return;
    const std::lock_guard lock(mutex);
    found.push_back(to_read[i]);
  });
  if (!to_read.empty()) context.progress.end();
  std::sort(found.begin(), found.end());
  return found;
}

void remake_parts(const ChunkManifest& manifest, const Dir& out, const Dir& staging,
                  const std::vector<std::size_t>& parts, const std::vector<Origin>& origins,
                  const Context& context) {
  const FrameSource source{manifest.layout, origins, manifest.grid(), manifest.level};
  MakeParts work{.xxh3 = manifest.parts[0].xxh3.has_value(), .sha256 = !manifest.parts[0].sha256.empty()};
  std::uint64_t total = 0, memory = 0;
  for (const std::size_t part : parts) {
    work.parts.push_back(range_of(manifest, part));
    total += source.grid.end(work.parts.back().end - 1) - source.grid.begin(work.parts.back().first);
  }
  const auto names = [&](std::size_t frame) {
    std::string first;
    manifest.layout.visit(source.grid.begin(frame), source.grid.size(frame), [&](const Piece& piece) {
      if (piece.kind == Piece::Kind::data && first.empty()) first = origins[piece.member].path;
    });
    return first.empty() ? manifest.name : first;
  };
  work.check = [&](std::size_t f, const Xxh3& content) {
    if (content == manifest.frames[f].xxh3) return;
    throw Error(
        names(f),
        fmt::format("is not the file that was packed into {}, or has changed: the content of frame {} has "
                    "another XXH3. Only the original file can make the part again",
                    manifest.parts[manifest.frames[f].part].path, f));
  };
  work.done = [&](const PartRange& range, const MadePart& made) {
    const FileEntry& want = manifest.parts[range.part];
    if (made.file.size != want.size || made.file.xxh3 != want.xxh3 || made.file.sha256 != want.sha256) {
      staging.unlink(staged_part(range.part));
      throw Error(
          out.path_of(want.path),
          fmt::format(
              "cannot be made again: this program gives other bytes for the same content than {} with "
              "zstd {} did. Use that version, or pack everything again with -f",
              manifest.tool, manifest.zstd));
    }
    staging.rename(staged_part(range.part), out, want.path);
    out.sync();
    context.progress.say(fmt::format("{}: made again", printable(out.path_of(want.path))));
  };
  Gate gate;
  context.progress.begin("making parts again", total);
  make_parts(source, work, lanes_for(source.grid, source.level, parts.size(), context, memory), staging, gate,
             context);
  context.progress.end();
}

void remake_parts(const std::string& manifest_path, const std::vector<std::size_t>& parts,
                  const std::string& source, const Context& context) {
  const ChunkManifest manifest = read_chunk_manifest(context, manifest_path);
  const Dir out = Dir::open(context.os, parent_of(manifest_path));
  PackRecords records(out, manifest.name, context);
  const std::vector<Origin> origins = origins_below(manifest, parts, source, context);
  remake_parts(manifest, out, records.directory(), parts, origins, context);
  records.forget_all();
}

}  // namespace planesmith::chunks
