// Names of the files of planes caches and pack stores, and of what a build keeps beside them until it has
// finished (FORMAT.md sections 6 and 7). All names are made and parsed here only. Names of chunk sets:
// chunks/chunk_names.h; of checkpoints: checkpoint/files.h.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace planesmith::format {

// The <key> of a cache or pack: the first 20 hex digits of the SHA-256 of `text`.
std::string key_of(std::string_view text);

// --- planes cache: <root>/v2/<key>/tp<W>-rank<r>/ ---

inline constexpr std::string_view kCacheLevel = "v2";  // the directory below the root
inline constexpr std::string_view kMetaName = "meta.json", kManifestName = "manifest.json";
inline constexpr std::string_view kCacheRecords = ".planesmith";  // records of layers: unfinished

// "v2/<key>/tp<W>-rank<r>": a rank's directory below the root.
std::string rank_directory(std::string_view key, std::uint64_t world, std::uint64_t rank);
bool is_key(std::string_view name);             // "<key>"
bool is_rank_directory(std::string_view name);  // "tp<W>-rank<r>"

struct PartFile {
  std::uint64_t layer = 0;  // layer index
  std::string_view part;    // "planes13", ..., a view of the parsed text; not checked
};
std::string part_file(std::uint64_t layer_index, std::string_view part);  // "layer<l>.<part>.bin"
std::optional<PartFile> parse_part_file(std::string_view name);

// --- pack: <directory>/<tag>.v2.<key>.rank<r>of<W>, its stem, and suffixes ---

struct PackStem {
  std::string_view tag, key;  // views of the parsed text
  std::uint64_t rank = 0, world = 1;
};
std::string pack_stem(std::string_view tag, std::string_view key, std::uint64_t rank, std::uint64_t world);
std::optional<PackStem> parse_pack_stem(std::string_view name);  // none also for a tag that no tier has

// The files of a pack: the stem, which may be a path, with a suffix.
std::string pack_file(std::string_view stem);           // ".pack"
std::string sidecar_file(std::string_view stem);        // ".json"
std::string lock_file(std::string_view stem);           // ".lock": the engine's protocol
std::string pack_manifest_file(std::string_view stem);  // ".pack.manifest.json"
std::string heat_file(std::string_view stem);           // ".pack.heat.json": written by the engine
bool is_pack_file(std::string_view name);               // ends with ".pack"
std::string stem_of_pack(std::string_view path);        // the inverse of pack_file()
// The stem of the pack that the name of a .pack, sidecar or manifest belongs to; empty: no pack's.
std::string stem_of_file(std::string_view name);

// "<directory>/.<stem>": the directory of layers' records while a build of the pack is unfinished.
std::string pack_records(std::string_view stem);

// The file in which the engine stores the heat of a tier's pool, for all identities.
struct PoolHeatName {
  std::string_view tag;  // a view of the parsed text
  std::uint64_t rank = 0, world = 1;
};
std::string pool_heat_file(std::string_view tag, std::uint64_t rank, std::uint64_t world);
std::optional<PoolHeatName> parse_pool_heat_file(std::string_view name);

// --- records of a cache or pack that is being built; `records` is the name of their directory ---

std::string record_file(std::uint64_t layer);  // in it: "layer<n>.json"
std::optional<std::uint64_t> parse_record_file(std::string_view name);
std::string records_lock(std::string_view records);                     // beside it: "<records>.lock"
std::string layer_lock(std::string_view records, std::uint64_t layer);  // "<records>.layer<n>.lock"
bool is_layer_lock(std::string_view name, std::string_view records);
// The directory of records that a lock of either kind belongs to; empty: not such a lock.
std::string records_of_lock(std::string_view name);

}  // namespace planesmith::format
