// The contents of a planes cache's root and of a pack store, whatever program wrote them. Scanning opens
// nothing for writing and locks nothing.
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
  std::optional<format::CacheMeta> meta;  // none: the engine matches it with no identity ...
  std::string problem;                    // ... for this reason
  // By layer index and part name: bytes of the part's file.
  std::map<std::uint64_t, std::map<std::string, std::uint64_t>> layers;
  std::uint64_t bytes = 0;          // of all files
  bool unfinished = false;          // it has records of single layers: a build has not finished
  std::optional<CacheFacts> facts;  // from manifest.json, if that is of this cache
  std::string source;  // fingerprint of what it was made of, by manifest or records; empty: not known
  std::string note;    // why manifest.json is ignored; empty: it is not
  std::optional<KnownModel> model;  // from a manifest of its identity, or from tell_model()

  std::string manifest_path() const { return path + "/" + std::string(format::kManifestName); }
  format::Fp4Tier fp4() const;  // by the manifest, else by the part files
  // None: the part is missing.
  std::optional<std::uint64_t> part_bytes(std::uint64_t layer, std::string_view part) const;
};

// A pool's heat file, which the engine wrote (ENGINE.md section 2). Its name does not contain an identity.
struct PoolHeat {
  std::string path, tag;
  std::uint64_t rank = 0, world = 1, bytes = 0;
};

// One pack: <dir>/<tag>.v2.<key>.rank<r>of<W> and suffixes.
struct FoundPack {
  std::string stem;                        // path without suffix
  std::uint64_t rank = 0, world = 1;       // from the name
  std::optional<format::Sidecar> sidecar;  // none: the engine matches it with no identity ...
  std::string problem;                     // ... for this reason
  std::optional<std::uint64_t> bytes;      // of the .pack; none: it is missing
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
  std::string root;                // of the planes cache; empty: not asked for
  std::string directory;           // of the packs, the first if each rank has its own; empty: not asked for
  PackDirs places;                 // all directories of packs
  std::vector<FoundCache> caches;  // sorted by name
  std::vector<FoundPack> packs;
  std::vector<PoolHeat> pool_heat;
};

// A root or directory that does not exist counts as empty. Error: it cannot be read.
Store scan_store(Os& os, const std::string& root, const PackDirs& places);

// The model of this identity according to a manifest in the store; none: no such manifest.
std::optional<KnownModel> model_in(const Store& store, const std::string& ckpt_id);
// Sets the model of identities whose model no manifest says.
void tell_model(Store& store, const KnownModel& model);

// The number of drafter blocks that a cache has layers of, or that a pack has room for; none: it is of
// another model.
std::uint64_t drafts_of(const FoundCache& cache, const KnownModel& model);
std::optional<std::uint64_t> drafts_of(const FoundPack& pack, const KnownModel& model);

// What can be served together: the ranks of one cache and the packs of the same identity. A pack's key does
// not depend on the split mode, so a pack belongs to both kinds of cache.
struct FoundIdentity {
  std::string ckpt_id;
  std::uint64_t world = 1;
  format::ZeroMode zero_mode = format::ZeroMode::automatic;
  std::optional<bool> split;  // of the cache; none: packs only
  std::vector<const FoundCache*> caches;
  std::vector<const FoundPack*> packs;
};
std::vector<FoundIdentity> identities(const Store& store);  // points into store
std::string describe(const FoundIdentity& identity);        // "'id' (world 2, zero mode auto, split)"

// Why a cache or pack is incomplete; empty: nothing is known to be missing (without a model not everything
// can be checked).
std::string defect(const FoundCache& cache);
std::string defect(const FoundPack& pack);
std::string defect(const FoundIdentity& identity);  // a missing rank
bool is_whole(const FoundIdentity& identity);       // no rank is missing and nothing has a defect
bool is_judged(const FoundIdentity& identity);      // the model of all its caches and packs is known

// How a JSON object differs from what the engine would ask: "differs in zero_mode: cache has "alt", engine
// would ask "auto"; lacks rank; has x, one key more than the engine writes". Empty: it does not differ.
std::string differences(const Json& found, const Json& asked);

}  // namespace planesmith
