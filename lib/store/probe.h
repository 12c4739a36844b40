// Would the engine boot from this? Repeats the engine's two boot probes, of the planes cache (FORMAT.md
// section 6) and of the packs (section 7), but creates, truncates, locks and opens for writing nothing.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "format/engine.h"
#include "manifest/known_model.h"
#include "serve/environment.h"
#include "store/store.h"

namespace planesmith {

// What a server would be started with.
struct Boot {
  std::string ckpt_id;
  std::uint64_t world = 1;
  std::vector<std::uint64_t> ranks;
  format::ZeroMode zero_mode = format::ZeroMode::automatic;
  format::Fp4Tier fp4 = format::Fp4Tier::nibble;   // of the planes cache
  bool split = false;                              // whether its key is that of the split mode
  std::optional<std::vector<format::Tier>> tiers;  // packs; none: those found in the store
  std::optional<format::Mode> mode;                // none: the first that the files can serve
  std::optional<std::uint64_t> drafts;             // DSpark blocks served; none: those found in the store
};

// The same, as far as the user gave it.
struct BootRequest {
  std::optional<std::string> ckpt_id = {};
  std::optional<std::uint64_t> world = {}, rank = {};  // no rank: all ranks
  std::optional<format::ZeroMode> zero_mode = {};
  std::optional<format::Fp4Tier> fp4 = {};
  std::optional<bool> split = {};  // none: follows from fp4
  std::optional<std::vector<format::Tier>> tiers = {};
  std::optional<format::Mode> mode = {};
  std::optional<std::uint64_t> drafts = {};
};

// Fills in what a mode opens, where the request does not say otherwise. has_store: a directory of packs was
// given.
void fill_in(BootRequest& request, format::Mode mode, bool has_store);

// Takes what the request lacks from the only identity in the store that agrees with it, or from the builders'
// defaults if the store has nothing of that identity. Errors: usage, listing them, if several agree;
// difference if the request has no identity and the store has none.
Boot complete(const BootRequest& request, const Store& store);

// The tiers of the packs of this boot's identity in the store, complete or not; without such packs the
// builders' defaults. A pack without a sidecar is recognized by its manifest, one without both by its name,
// which needs the model's geometry.
std::vector<format::Tier> tiers_there(const Store& store, const Boot& boot,
                                      const std::optional<KnownModel>& model);

// The number of DSpark blocks that the packs of this identity were built for, else its caches; where they
// differ, the smallest.
std::uint64_t drafts_there(const Store& store, const Boot& boot, const KnownModel& model);

// Misses are sentences for people; empty means a hit.
struct PartVerdict {
  std::string part, path, miss;
  std::uint64_t bytes = 0;  // expected
};
struct LayerVerdict {
  std::uint64_t index = 0, key = 0;
  std::vector<PartVerdict> parts;  // cache only, and only if meta.json matches
  std::string miss;                // of the whole layer
  bool hit() const;
};
struct CacheVerdict {
  std::uint64_t rank = 0;
  std::string path, miss;  // miss: why meta.json does not match, so that every layer misses
  std::string unread;      // why the engine never reads such a cache; empty: it does
  std::vector<LayerVerdict> layers;
  bool hit() const;
};
struct PackVerdict {
  format::Tier tier = format::Tier::base;
  std::uint64_t rank = 0;
  std::string path;                 // of the .pack
  std::vector<std::string> misses;  // of the whole pack
  bool emptied = false;             // at its start the engine would replace this pack by an empty one
  std::vector<LayerVerdict> layers;
  bool hit() const;
};

struct BootVerdict {
  Boot boot;
  std::optional<KnownModel> model;
  std::vector<CacheVerdict> caches;
  std::vector<PackVerdict> packs;
  std::vector<std::string> found;  // identities in the store, if none is the one asked for
  std::vector<std::string> notes;  // remarks that are not misses
  Findings findings;               // problems other than with files
  Environment environment;         // to serve with; filled in by the caller
  bool hit() const;
};

// model: none only if the store has nothing of this identity; otherwise Error (usage).
BootVerdict probe(Os& os, const Store& store, const Boot& boot, const std::optional<KnownModel>& model);

}  // namespace planesmith
