#include "chunks/chunk_manifest.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "base/error.h"
#include "base/file.h"
#include "base/size.h"
#include "chunks/frame.h"

namespace planesmith::chunks {
namespace {

constexpr std::uint64_t kMaxManifest = kGiB, kMaxOffset = std::uint64_t{1} << 62;

Json to_json(const Member& member) {
  Json json{{"path", member.path},
            {"type", name(member.type)},
            {"mode", member.mode},
            {"offset", member.offset},
            {"data_offset", member.data_offset}};
  if (!member.target.empty()) json["target"] = member.target;
  if (member.type != MemberType::file) return json;
  json["size"] = member.size;
  json["xxh3"] = combine(member.blocks).hex();
  json["blocks"] = digests_to_json(member.blocks);
  if (!member.sparse()) return json;
  Json map = Json::array();
  for (const Extent& extent : member.extents) map.push_back({extent.offset, extent.size});
  json["extents"] = std::move(map);
  return json;
}

MemberType read_type(Fields& fields) {
  const std::string text = fields.text("type");
  for (const MemberType type :
       {MemberType::file, MemberType::directory, MemberType::symlink, MemberType::hardlink})
    if (text == name(type)) return type;
  fields.refuse("is neither file, directory, symlink nor hardlink");
}

std::vector<Extent> read_extents(Fields& fields, std::uint64_t size) {
  std::vector<Extent> extents;
  if (fields.find("extents") == nullptr) {
    append_extent(extents, 0, size);
    return extents;
  }
  for (const Json& extent : fields.list("extents")) {
    if (!extent.is_array() || extent.size() != 2 || !extent[0].is_number_unsigned() ||
        !extent[1].is_number_unsigned())
      fields.refuse("has extents that are not pairs of offset and size");
    append_extent(extents, extent[0], extent[1]);
  }
  return extents;
}

Member read_member(const Json& json, const std::string& path, std::size_t position) {
  std::string where = fmt::format("member {}", position);
  if (json.is_object() && json.contains("path") && json["path"].is_string())
    where = fmt::format("member '{}'", json["path"].get<std::string>());
  Fields fields(json, path, where);
  Member member;
  member.path = fields.text("path");
  if (!is_inner_path(member.path))
    fields.refuse("has a name that does not stay below the directory it is unpacked in");
  member.type = read_type(fields);
  member.mode = static_cast<unsigned>(fields.number("mode", 0, 07777));
  member.offset = fields.number("offset", 0, kMaxOffset);
  member.data_offset = fields.number("data_offset", 0, kMaxOffset);
  if (member.type == MemberType::symlink || member.type == MemberType::hardlink) {
    member.target = fields.text("target");
    if (member.target.empty() || member.target.find('\0') != std::string::npos)
      fields.refuse("has an impossible link target");
  }
  if (member.type == MemberType::file) {
    member.size = fields.number("size", 0, kMaxOffset);
    member.extents = read_extents(fields, member.size);
    member.blocks = fields.digests("blocks");
    if (member.blocks.size() != member.block_count() || fields.digest("xxh3") != combine(member.blocks))
      fields.refuse("has digests that do not belong together");
  }
  fields.done();
  return member;
}

void check_members(const std::vector<Member>& members, const Fields& fields) {
  std::set<std::string_view> files;
  for (std::size_t i = 0; i < members.size(); ++i) {
    const Member& member = members[i];
    if (i != 0 && !path_less(members[i - 1].path, member.path))
      fields.refuse(fmt::format("has its members out of order at '{}'", member.path));
    if (member.type == MemberType::file) files.insert(member.path);
    if (member.type == MemberType::hardlink && !files.contains(member.target))
      fields.refuse(fmt::format("has '{}' as a hard link to '{}', which is not a file before it", member.path,
                                member.target));
  }
}

void check_frames(const ChunkManifest& m, const Fields& fields) {
  const auto require = [&](bool fine, const char* what) {
    if (!fine) fields.refuse(what);
  };
  require(m.frame_size >= kMinFrameSize && m.frame_size <= kMaxFrameSize, "has a frame size out of bounds");
  require(m.frames.size() == (m.layout.size() + m.frame_size - 1) / m.frame_size,
          "has the wrong number of frames");
  require(!m.parts.empty(), "has no parts");
  std::size_t part = 0;
  std::uint64_t at = 0;
  for (std::size_t f = 0; f < m.frames.size(); ++f) {
    const FrameEntry& frame = m.frames[f];
    if (frame.part != part) {
      require(frame.part == part + 1 && at == m.parts.at(part).size, "has frames that do not fill the parts");
      part = frame.part;
      at = 0;
    }
    require(part < m.parts.size() && frame.offset == at, "has frames that do not follow each other");
    require(frame.size != 0 && frame.size <= frame_bound(m.content_size(f)),
            "has a frame whose size is out of bounds");
    at += frame.size;
  }
  require(part + 1 == m.parts.size() && at == m.parts.back().size, "has frames that do not fill the parts");
  const std::size_t suffix = m.parts[0].path.find_last_of('.');
  for (std::size_t p = 0; p < m.parts.size(); ++p)
    require(m.parts[p].path == part_name(m.name, p, m.parts[0].path.size() - suffix - 1),
            "has parts that are not named NAME.tar.zst.part.NNN");
}

}  // namespace

std::uint64_t ChunkManifest::packed_size() const {
  std::uint64_t sum = 0;
  for (const FileEntry& part : parts) sum += part.size;
  return sum;
}

std::uint64_t ChunkManifest::packed_offset(std::size_t frame) const {
  std::uint64_t before = 0;
  for (std::size_t p = 0; p < frames[frame].part; ++p) before += parts[p].size;
  return before + frames[frame].offset;
}

Json digests_to_json(const std::vector<Xxh3>& digests) {
  Json json = Json::array();
  for (const Xxh3& digest : digests) json.push_back(digest.hex());
  return json;
}

Json frames_to_json(std::span<const FrameEntry> frames) {
  Json json = Json::array();
  for (const FrameEntry& frame : frames)
    json.push_back(
        {{"part", frame.part}, {"offset", frame.offset}, {"size", frame.size}, {"xxh3", frame.xxh3.hex()}});
  return json;
}

std::vector<FrameEntry> frames_from_json(Fields& fields, const std::string& path) {
  std::vector<FrameEntry> frames;
  for (const Json& json : fields.list("frames")) {
    Fields frame(json, path, fmt::format("frame {}", frames.size()));
    frames.push_back({.part = frame.number("part", 0, kMaxOffset),
                      .offset = frame.number("offset", 0, kMaxOffset),
                      .size = frame.number("size", 1, kMaxOffset),
                      .xxh3 = frame.digest("xxh3")});
    frame.done();
  }
  return frames;
}

std::string to_json(const ChunkManifest& m) {
  Json members = Json::array();
  for (const Member& member : m.layout.members()) members.push_back(to_json(member));
  Manifest manifest{.kind = ManifestKind::chunks, .tool = m.tool, .files = m.parts};
  manifest.chunks = {{"name", m.name},
                     {"zstd", m.zstd},
                     {"level", m.level},
                     {"frame_size", m.frame_size},
                     {"part_size", m.part_size},
                     {"stream_size", m.layout.size()},
                     {"frames", frames_to_json(m.frames)},
                     {"members", std::move(members)}};
  return planesmith::to_json(manifest);
}

ChunkManifest parse_chunk_manifest(std::string_view text, const std::string& path) {
  Manifest manifest = parse_manifest(text, path);
  if (manifest.kind != ManifestKind::chunks)
    throw Error(path, fmt::format("is a manifest of kind '{}'; one of kind 'chunks' was expected",
                                  name(manifest.kind)));
  Fields fields(manifest.chunks, path, "\"chunks\"");
  std::vector<Member> members;
  for (const Json& member : fields.list("members"))
    members.push_back(read_member(member, path, members.size()));
  check_members(members, fields);
  const auto layout = [&] {
    try {
      return Layout(std::move(members), fields.number("stream_size", kTarEnd, kMaxOffset));
    } catch (const Error& error) {
      fields.refuse(fmt::format("contradicts itself: {}{}{}", error.path(), error.path().empty() ? "" : ": ",
                                error.reason()));
    }
  };
  ChunkManifest m{.tool = manifest.tool,
                  .zstd = fields.text("zstd"),
                  .name = fields.text("name"),
                  .level = static_cast<int>(fields.number("level", 0, kMaxLevel)),
                  .frame_size = fields.number("frame_size", kMinFrameSize, kMaxFrameSize),
                  .part_size = fields.number("part_size", 1, kMaxOffset),
                  .parts = std::move(manifest.files),
                  .frames = frames_from_json(fields, path),
                  .layout = layout()};
  fields.done();
  if (!is_inner_path(m.name) || m.name.find('/') != m.name.npos)
    fields.refuse("has a name that is not a file name");
  check_frames(m, fields);
  return m;
}

ChunkManifest read_chunk_manifest(Os& os, const std::string& path) {
  return parse_chunk_manifest(read_text(os, path, kMaxManifest), path);
}

}  // namespace planesmith::chunks
