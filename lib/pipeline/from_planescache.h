// Packs out of a planes cache that is there already: blocks are shared where the file system can, else copied
// and verified against the cache's manifest on the way. A cache without one, as the engine leaves it, is
// taken as it is: what is read is what the packs hold and their manifests say, and shared blocks are read for
// their digests, too.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/context.h"
#include "format/pack.h"
#include "manifest/known_model.h"
#include "pipeline/build.h"
#include "plan/pack_dirs.h"
#include "plan/plan.h"
#include "quant/kernels.h"
#include "sink/sink.h"

namespace planesmith {

enum class Reflink { automatic, always, never };
Reflink parse_reflink(std::string_view text);  // auto, always, never; anything else is a usage Error

struct FromCacheRequest {
  std::string cache_root;
  PackDirs store;
  std::vector<format::Tier> tiers;
  std::uint64_t world = 1;
  std::optional<std::uint64_t> rank;  // none: all ranks
  format::ZeroMode zero_mode = format::ZeroMode::automatic;
  std::optional<std::string> ckpt_id;                // none: the only identity found
  std::optional<KnownModel> model;                   // for a cache of which no manifest says the geometry
  std::optional<std::vector<std::uint64_t>> layers;  // layer indices; none: all
  std::uint64_t drafts = 0;                          // DSpark blocks, layers L .. L + drafts - 1 of the cache
  Reflink reflink = Reflink::automatic;
  Trust trust = Trust::record;  // content: shared sections are read and checked, too
  bool dry_run = false;
  bool check_space = true;
};

struct FromCacheReport {
  std::string ckpt_id;
  std::uint64_t converted = 0, finished = 0, elsewhere = 0;  // layers, summed over packs
  std::uint64_t shared = 0, copied = 0;                      // bytes
  Outlook outlook;                     // to_write: beyond what is there, less what can be shared
  std::uint64_t peak_memory = 0;       // bytes
  std::vector<std::string> read_from;  // files of the cache
  std::vector<Plan::Written> written;  // what the packs are, all ranks
  bool complete = false;
  std::vector<std::string> without_manifest;  // directories of ranks whose bytes nothing vouches for
  std::vector<std::string> outputs;
};

// Errors: no cache of that world, rank and zero mode, or several identities (usage, listing them); neither a
// manifest nor a model (usage); a part that is missing or of the wrong size; a tier that the cache's FP4
// planes cannot give; a section that is not what the manifest says (difference).
FromCacheReport packs_from_planescache(const Context& context, const FromCacheRequest& request,
                                       const Kernels& kernels);

}  // namespace planesmith
