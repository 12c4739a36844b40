// Manifests: files with their sizes and digests (CLI.md, "Manifests"). The JSON's schema is
// manifests/manifest.schema.json. The same content gives the same bytes: no times, no host names.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/hash.h"
#include "base/json.h"
#include "base/size.h"
#include "checkpoint/family.h"
#include "format/pack.h"
#include "format/planescache.h"

namespace planesmith {

enum class ManifestKind { planescache, pack, tree, chunks };
std::string_view name(ManifestKind kind);

inline constexpr std::uint64_t kTreeBlock = 8 << 20;  // block of files that have no sections

struct FileEntry {
  std::string path{};  // relative to the manifest's directory, '/' between components
  std::uint64_t size = 0;
  std::optional<std::string> link_target{};  // a symbolic link: never followed; size 0, no digests
  // XXH3 has two levels: digests of blocks, and the file's digest over those in order. The kind determines
  // the bytes of a block: block_ranges().
  std::vector<Xxh3> blocks{};  // empty: XXH3 not recorded, or the file is empty
  std::optional<Xxh3> xxh3{};  // combine(blocks)
  std::string sha256{};        // hex of the plain digest; empty: not recorded
  std::string git_sha1{};      // hex of git's blob digest, known from listings only; never written
};

// Identity and geometry of a cache or pack.
struct CacheFacts {
  std::string ckpt_id{};
  std::uint64_t world = 1, rank = 0;
  format::ZeroMode zero_mode = format::ZeroMode::automatic;
  format::Geometry geometry{};
  std::vector<std::uint64_t> layers{};   // planescache: layer indices; pack: layer keys; sorted
  std::optional<format::Fp4Tier> fp4{};  // planescache
  std::optional<format::Tier> tier{};    // pack
  // The identity is a content id with some digests from the hub client's metadata, whose files were not read.
  bool id_by_download = false;
  std::string source{};            // fingerprint (FORMAT.md section 10); empty: unknown
  std::optional<Family> family{};  // of the checkpoint's experts; none: unknown
};

// A planes cache's key does not depend on drafters, so only the layers from L on in its manifest show them;
// this sets geometry.drafts accordingly. A pack's manifest has the number.
void count_drafts(CacheFacts& facts);

// `files` has, sorted by path:
//   planescache  the part files of every layer of facts.layers, not meta.json
//   pack         the .pack file, not sidecar and lock
//   tree         every file and link at or below the paths in `covers`
//   chunks       the parts, in 8 MiB blocks
// meta.json and sidecar follow from the facts byte for byte (derived_files), so nothing else in the manifest
// depends on the identity, and the parts' digests can be compared under any identity.
struct Manifest {
  ManifestKind kind = ManifestKind::tree;
  std::string tool{};                 // "planesmith 0.1.0"
  std::optional<CacheFacts> facts{};  // planescache and pack
  std::vector<FileEntry> files{};
  std::vector<std::string> covers{};  // tree: the files and directories asked for, relative, or "."
  Json chunks{};                      // chunks: an object that lib/chunks defines; else null
};

struct DerivedFile {
  std::string path, content;
};
// planescache: meta.json; pack: the sidecar; others: none.
std::vector<DerivedFile> derived_files(const Manifest& manifest);

struct BlockRange {
  std::uint64_t offset = 0, size = 0;
};
// The byte ranges that a file's block digests cover, in order: one expert's section each in parts of a
// planescache, the sections of each row of each listed layer in packs, 8 MiB blocks in other files.
std::vector<BlockRange> block_ranges(const Manifest& manifest, const FileEntry& file);
// "expert 17", "layer key 3, expert 17, planes13", "block 2": for messages.
std::string block_name(const Manifest& manifest, const FileEntry& file, std::size_t block);

// The last line of a manifest's object, with the digest of the text before it:
// a damaged manifest must not blame the files.
std::string digest_line(std::string_view text);

// The manifest's exact bytes. Error: a string that is not UTF-8.
std::string to_json(const Manifest& manifest);

// Parses untrusted text. Errors: not JSON, unknown kind or key; paths that are absolute, leave the directory,
// appear twice or do not follow from the facts; sizes and numbers of blocks that contradict each other; an
// xxh3 that is not combine(blocks), or a missing one (planescache, pack); more than `memory` bytes are
// needed; a wrong digest of its own text.
Manifest parse_manifest(std::string_view text, const std::string& path, std::uint64_t memory = 2 * kGiB);

inline constexpr std::uint64_t kMostManifestBytes = std::uint64_t{1} << 30;
// Text and parsed JSON take most of the memory that a manifest needs.
// A cache of 78 layers and 384 experts has 7 MiB of text.
constexpr std::uint64_t manifest_text_limit(std::uint64_t memory) {
  return memory / 5;
}
// The same for a file. Errors also: it cannot be read, or is too large for `memory`.
Manifest read_manifest(Os& os, const std::string& path, std::uint64_t memory = 64 * kMiB);

// Whether a path taken from a file stays below the directory it is relative to: not empty, not absolute, no
// component empty, "." or "..", no NUL.
bool is_inner_path(std::string_view path);

}  // namespace planesmith
