// The manifest of a set (manifest.NAME.json): parts, frames and members (kind "chunks" of
// manifests/manifest.schema.json). It is written last, when all parts are there.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/context.h"
#include "base/json.h"
#include "chunks/chunk_names.h"
#include "chunks/frame_grid.h"
#include "chunks/layout.h"
#include "manifest/fields.h"
#include "manifest/manifest.h"

namespace planesmith::chunks {

inline constexpr std::uint64_t kMinFrameSize = 4 << 10, kMaxFrameSize = 1 << 30;

struct FrameEntry {
  std::size_t part = 0;                // index into parts
  std::uint64_t offset = 0, size = 0;  // of the compressed frame in the part
  Xxh3 xxh3;                           // plain XXH3-128 of the content
};

struct ChunkManifest {
  std::string tool{}, zstd{}, tar{};  // versions that made the parts; tar: empty if not recorded
  std::string name{};
  int level = 0;
  std::uint64_t frame_size = 0, part_size = 0;  // most content of a frame; most bytes of a part
  std::uint64_t part_content = 0;               // content of every part but the last; 0: frame_grid.h
  std::vector<FileEntry> parts{};
  std::vector<FrameEntry> frames{};
  Layout layout;  // members with their digests, and the size of the tar stream

  FrameGrid grid() const { return {layout.size(), frame_size, part_content}; }
  std::uint64_t packed_size() const;                     // of all parts
  std::uint64_t packed_offset(std::size_t frame) const;  // in the stream of all parts
};

// Frames as the manifest and the records of single parts hold them.
Json frames_to_json(std::span<const FrameEntry> frames);
std::vector<FrameEntry> frames_from_json(Fields& fields, const std::string& path);
Json digests_to_json(const std::vector<Xxh3>& digests);

std::string to_json(const ChunkManifest& manifest);
// Reads a manifest of any length. Errors: not a manifest, not of this kind, names that leave the directory,
// contradictions; its content takes more than half of context.memory.
ChunkManifest read_chunk_manifest(const Context& context, const File& file);
ChunkManifest read_chunk_manifest(const Context& context, const std::string& path);
// Whether the file is a JSON object of that kind; false also where it cannot be read.
bool is_chunk_manifest(const Context& context, const std::string& path);

}  // namespace planesmith::chunks
