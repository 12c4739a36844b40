// Manifests: what files there are, how long they are and what is in them (CLI.md, "Manifests"). The JSON's schema is
// manifests/manifest.schema.json. The same content gives the same bytes: no times, no host names.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/hash.h"
#include "base/json.h"
#include "format/pack.h"
#include "format/planescache.h"

namespace planesmith {

enum class ManifestKind { planescache, pack, tree };  // "chunks" has its own writer in lib/chunks
std::string_view name(ManifestKind kind);

inline constexpr std::uint64_t kTreeBlock = 8 << 20;  // block of files that have no sections

struct FileEntry {
  std::string path;               // relative to the manifest's folder, '/' between components
  std::uint64_t size = 0;
  std::optional<std::string> link_target;  // a symbolic link: recorded, never followed; no digests then
  // XXH3 is two-level: digests of blocks, and over them in order the file's. Which bytes a block covers follows from
  // the kind: block_ranges().
  std::vector<Xxh3> blocks;       // empty: XXH3 not recorded (or the file is empty)
  std::optional<Xxh3> xxh3;       // combine(blocks)
  std::string sha256;             // hex of the plain digest; empty: not recorded
};

// Identity and geometry of a cache or pack.
struct CacheFacts {
  std::string ckpt_id;
  std::uint64_t world = 1, rank = 0;
  format::ZeroMode zero_mode = format::ZeroMode::automatic;
  format::Geometry geometry;
  std::vector<std::uint64_t> layers;  // planescache: layer indices; pack: layer keys; sorted
  std::optional<format::Fp4Tier> fp4;  // planescache
  std::optional<format::Tier> tier;    // pack
};

struct Manifest {
  ManifestKind kind = ManifestKind::tree;
  std::string tool;                   // "planesmith 0.1.0"
  std::optional<CacheFacts> facts;    // planescache and pack
  std::vector<FileEntry> files;       // sorted by path
};

struct BlockRange {
  std::uint64_t offset = 0, size = 0;
};
// The byte ranges that a file's block digests cover, in order: planescache parts, one expert's section each; packs, the
// sections inside each row of each listed layer; anything else, 8 MiB blocks.
std::vector<BlockRange> block_ranges(const Manifest& manifest, const FileEntry& file);
// "expert 17", "layer key 3, expert 17, planes13", "block 2": for people.
std::string block_name(const Manifest& manifest, const FileEntry& file, std::size_t block);

std::string to_json(const Manifest& manifest);  // the manifest's exact bytes
// Errors: not JSON, unknown kind, paths that are absolute or leave the folder, digests that do not belong together.
Manifest parse_manifest(std::string_view text, const std::string& path);

}  // namespace planesmith
