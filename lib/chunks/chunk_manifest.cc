#include "chunks/chunk_manifest.h"

#include <fmt/format.h>

#include <algorithm>

namespace planesmith::chunks {
namespace {

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
  if (m.part_content != 0) manifest.chunks["part_content"] = m.part_content;
  if (!m.tar.empty()) manifest.chunks["tar"] = m.tar;
  return planesmith::to_json(manifest);
}

}  // namespace planesmith::chunks
