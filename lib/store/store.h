// What stands in the root of a planes cache and in the directory of a pack store, the one that wrote it.
// Looking opens nothing for writing and locks nothing.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/context.h"
#include "format/pack.h"
#include "format/planescache.h"
#include "manifest/known_model.h"
#include "manifest/manifest.h"
#include "plan/pack_dirs.h"
#include "sink/records.h"

namespace planesmith {

// One rank of a planes cache: <root>/v2/<key>/tp<W>-rank<r>.
struct FoundCache {
  std::string path;
  std::string name;                       // below the root
  std::optional<format::CacheMeta> meta;  // none: the engine can match it with no identity ...
  std::string problem;                    // ... because of this
  std::map<std::uint64_t, std::map<std::string, std::uint64_t>>
      layers;                       // by index: bytes of each part's file
  std::uint64_t bytes = 0;          // of all files
  bool unfinished = false;          // a build left records of single layers here
  std::optional<CacheFacts> facts;  // from a manifest.json that speaks of this cache
  std::string source;  // fingerprint of what it was made of, by manifest or records; empty: not known
  std::string note;    // what is wrong with manifest.json
  std::optional<KnownModel> model;  // from a manifest of its identity, or what tell_model() was told

  std::string manifest_path() const { return path + "/" + std::string(format::kManifestName); }
  format::Fp4Tier fp4() const;  // of the manifest, else of the part files there are
  std::optional<std::uint64_t> part_bytes(std::uint64_t layer,
                                          std::string_view part) const;  // none: it is not there
};

// Which experts of a pool were hot, of whatever identity, as the engine left it (ENGINE.md section 2).
struct PoolHeat {
  std::string path, tag;
  std::uint64_t rank = 0, world = 1, bytes = 0;
};

// One pack: <dir>/<tag>.v2.<key>.rank<r>of<W> and suffixes.
struct FoundPack {
  std::string stem;                        // path without suffix
  std::uint64_t rank = 0, world = 1;       // as the name says
  std::optional<format::Sidecar> sidecar;  // none: no identity matches ...
  std::string problem;                     // ... because of this
  std::optional<std::uint64_t> bytes;      // of the .pack; none: it is not there
  std::uint64_t allocated = 0;             // bytes on disk
  std::uint64_t heat = 0;                  // bytes of the engine's heat file beside it; 0: none
  bool unfinished = false;
  std::optional<CacheFacts> facts;
  std::string source;
  std::string note;
  std::optional<KnownModel> model;

  std::string manifest_path() const { return format::pack_manifest_file(stem); }
  std::string heat_path() const { return format::heat_file(stem); }
};

struct Store {
  std::string root;       // of the planes cache; empty: not asked for
  std::string directory;  // of the packs, the first where each rank has its own; empty: not asked for
  PackDirs places;        // all of them
  std::vector<FoundCache> caches;  // sorted by name
  std::vector<FoundPack> packs;
  std::vector<PoolHeat> pool_heat;
};

// A root or directory that is not there holds nothing. Errors: it cannot be read.
Store scan_store(Os& os, const std::string& root, const PackDirs& places);

// What a manifest in the store says of the model of this identity; none: no such manifest.
std::optional<KnownModel> model_in(const Store& store, const std::string& ckpt_id);
// The model of those identities of which no manifest says it.
void tell_model(Store& store, const KnownModel& model);

// How many drafter blocks a cache has layers of, or a pack has room for; none: it is of another model.
std::uint64_t drafts_of(const FoundCache& cache, const KnownModel& model);
std::optional<std::uint64_t> drafts_of(const FoundPack& pack, const KnownModel& model);

// What can be served together: the ranks of one cache and the packs that go with it. A pack's key does not
// know of the split mode, so a pack belongs to both kinds of cache.
struct FoundIdentity {
  std::string ckpt_id;
  std::uint64_t world = 1;
  format::ZeroMode zero_mode = format::ZeroMode::automatic;
  std::optional<bool> split;  // none: packs only
  std::vector<const FoundCache*> caches;
  std::vector<const FoundPack*> packs;
};
std::vector<FoundIdentity> identities(const Store& store);  // points into store
std::string describe(const FoundIdentity& identity);        // "'id' (world 2, zero mode auto, split)"

// Why a cache or pack is not whole, as far as that can be told where its model is not known; empty: nothing
// is known to be missing.
std::string defect(const FoundCache& cache);
std::string defect(const FoundPack& pack);
std::string defect(const FoundIdentity& identity);  // a rank that is missing
bool is_whole(const FoundIdentity& identity);       // no rank missing, and none of what is there has a defect
bool is_judged(const FoundIdentity& identity);      // the model of all that is there is known

// How a JSON object differs from what the engine would ask: "differs in zero_mode: cache has "alt", engine
// would ask "auto"; lacks rank; has x, one key more than the engine writes"; empty: not at all.
std::string differences(const Json& found, const Json& asked);

}  // namespace planesmith
