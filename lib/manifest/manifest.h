// Manifests: what files there are, how long they are and what is in them (CLI.md, "Manifests"). The JSON's
// schema is manifests/manifest.schema.json. The same content gives the same bytes: no times, no host names.
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
  // XXH3 is two-level: digests of blocks, and over them in order the file's. Which bytes a block covers
  // follows from the kind: block_ranges().
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
  // The identity is a content id of which some digests are what the hub's client said: those bytes were not
  // read for it.
  bool id_by_download = false;
  std::string source{};            // fingerprint (FORMAT.md section 10); empty: not known
  std::optional<Family> family{};  // of the checkpoint's experts; none: not known
};

// A planes cache's key does not know of drafters, so its manifest tells them by its layers from L on alone;
// this sets geometry.drafts accordingly. A pack's geometry says it.
void count_drafts(CacheFacts& facts);

// `files` holds, sorted by path,
//   planescache  the part files of every layer of facts.layers, not meta.json
//   pack         the .pack file, not sidecar and lock
//   tree         every file and link below the directories that `covers` names
//   chunks       the parts, in 8 MiB blocks
// meta.json and sidecar follow from the facts to the last byte (derived_files), so nothing else in the
// manifest depends on the identity, and the parts' digests can be compared under any.
struct Manifest {
  ManifestKind kind = ManifestKind::tree;
  std::string tool{};                 // "planesmith 0.1.0"
  std::optional<CacheFacts> facts{};  // planescache and pack
  std::vector<FileEntry> files{};
  std::vector<std::string> covers{};  // tree: the files and directories asked for, relative, or "."
  Json chunks{};                      // chunks: whatever lib/chunks keeps there, an object; else null
};

struct DerivedFile {
  std::string path, content;
};
// planescache: meta.json; pack: the sidecar; others: none.
std::vector<DerivedFile> derived_files(const Manifest& manifest);

struct BlockRange {
  std::uint64_t offset = 0, size = 0;
};
// The byte ranges that a file's block digests cover, in order: planescache parts, one expert's section each;
// packs, the sections inside each row of each listed layer; anything else, 8 MiB blocks.
std::vector<BlockRange> block_ranges(const Manifest& manifest, const FileEntry& file);
// "expert 17", "layer key 3, expert 17, planes13", "block 2": for people.
std::string block_name(const Manifest& manifest, const FileEntry& file, std::size_t block);

// The last line of a manifest's object, over the text before it: a manifest that was damaged must not blame
// the files. Chunks have their own.
std::string digest_line(std::string_view text);

// The manifest's exact bytes. Errors: a string that is not UTF-8.
std::string to_json(const Manifest& manifest);

// Takes nothing on trust. Errors: not JSON, unknown kind or key, paths that are absolute, leave the
// directory, appear twice or are not what the facts call for; sizes and numbers of blocks that do not belong
// together; an xxh3 that is not combine(blocks), or none where data are trusted by it (planescache, pack);
// more than such memory takes.
Manifest parse_manifest(std::string_view text, const std::string& path, std::uint64_t memory = 2 * kGiB);

inline constexpr std::uint64_t kMostManifestBytes = std::uint64_t{1} << 30;
// The text and what the parser makes of it take most of the memory that a manifest needs. A cache of 78
// layers and 384 experts has 7 MiB of text.
constexpr std::uint64_t manifest_text_limit(std::uint64_t memory) {
  return memory / 5;
}
// The same of a file. Errors: besides, it cannot be read, or is too large for so much memory.
Manifest read_manifest(Os& os, const std::string& path, std::uint64_t memory = 64 * kMiB);

// Whether a path taken from a file stays below the directory it is relative to: not empty, not absolute, no
// component empty, "." or "..", no NUL.
bool is_inner_path(std::string_view path);

}  // namespace planesmith
