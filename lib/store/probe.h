// Would the engine boot from this? Its two boot probes, of the planes cache (FORMAT.md section 6) and of the
// packs (section 7), done again without opening anything for writing, creating, truncating or locking
// anything.
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
  bool split = false;                              // its key is that of the split mode
  std::optional<std::vector<format::Tier>> tiers;  // packs; none: those that are there
  std::optional<format::Mode> mode;                // none: the first that these files can serve
  std::optional<std::uint64_t> drafts;             // DSpark blocks served; none: those that are there
};

// The same as far as it was said.
struct BootRequest {
  std::optional<std::string> ckpt_id = {};
  std::optional<std::uint64_t> world = {}, rank = {};  // no rank: all
  std::optional<format::ZeroMode> zero_mode = {};
  std::optional<format::Fp4Tier> fp4 = {};
  std::optional<bool> split = {};  // none: as fp4 has it
  std::optional<std::vector<format::Tier>> tiers = {};
  std::optional<format::Mode> mode = {};
  std::optional<std::uint64_t> drafts = {};
};

// What a mode opens, where a request does not say otherwise. has_store: it is given a directory of packs.
void fill_in(BootRequest& request, format::Mode mode, bool has_store);

// What was not said is taken from the one identity in the store that agrees with what was; from what builders
// make by default where the store has nothing of that identity. Errors: usage where there are several,
// listing them; difference where no identity was said and there is none.
Boot complete(const BootRequest& request, const Store& store);

// The tiers of the packs in the store that are of this boot's identity, whole or not; what builders make by
// default where there is none. A pack that has lost its sidecar is known by its manifest, one that has lost
// both by its name, for which the model's geometry is needed.
std::vector<format::Tier> tiers_there(const Store& store, const Boot& boot,
                                      const std::optional<KnownModel>& model);

// How many DSpark blocks what is there was built for: the packs of this identity, else its caches. The fewest
// where they differ.
std::uint64_t drafts_there(const Store& store, const Boot& boot, const KnownModel& model);

// Reasons are sentences for people; an empty one is a hit.
struct PartVerdict {
  std::string part, path, miss;
  std::uint64_t bytes = 0;  // expected
};
struct LayerVerdict {
  std::uint64_t index = 0, key = 0;
  std::vector<PartVerdict> parts;  // cache only, and only where meta.json matches
  std::string miss;                // of the layer as a whole
  bool hit() const;
};
struct CacheVerdict {
  std::uint64_t rank = 0;
  std::string path, miss;  // miss: meta.json does not match, so every layer misses
  std::string unread;      // why the engine does not read it, whatever it holds; empty: it does
  std::vector<LayerVerdict> layers;
  bool hit() const;
};
struct PackVerdict {
  format::Tier tier = format::Tier::base;
  std::uint64_t rank = 0;
  std::string path;                 // of the .pack
  std::vector<std::string> misses;  // of the pack as a whole
  bool emptied = false;             // at its start the engine would put an empty pack in this one's place
  std::vector<LayerVerdict> layers;
  bool hit() const;
};

struct BootVerdict {
  Boot boot;
  std::optional<KnownModel> model;
  std::vector<CacheVerdict> caches;
  std::vector<PackVerdict> packs;
  std::vector<std::string> found;  // identities in the store, where the one asked for is not all there
  std::vector<std::string> notes;  // worth knowing, no miss
  Findings findings;               // what besides the files is wrong
  Environment environment;         // to serve with, where that was asked for
  bool hit() const;
};

// model: may be absent only where the store has nothing of this identity. Errors (usage): it is absent
// elsewhere.
BootVerdict probe(Os& os, const Store& store, const Boot& boot, const std::optional<KnownModel>& model);

}  // namespace planesmith
