// Makes packs from an existing planes cache: shares blocks if the file system can, else copies them and
// verifies them against the cache's manifest. A cache without a manifest, as the engine writes it, is taken
// without verification; its shared blocks are read too, for the digests of the packs' manifests.
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
  std::optional<KnownModel> model;                   // for a cache whose geometry no manifest has
  std::optional<std::vector<std::uint64_t>> layers;  // layer indices; none: all
  std::uint64_t drafts = 0;                          // DSpark blocks, layers L .. L + drafts - 1 of the cache
  Reflink reflink = Reflink::automatic;
  Trust trust = Trust::record;  // content: shared sections are also read and verified
  bool dry_run = false;
  bool check_space = true;
};

struct FromCacheReport {
  std::string ckpt_id;
  std::uint64_t converted = 0, finished = 0, elsewhere = 0;  // layers, summed over packs
  std::uint64_t shared = 0, copied = 0;                      // bytes
  Outlook outlook;                     // to_write: bytes still missing, if no blocks can be shared
  std::uint64_t peak_memory = 0;       // bytes
  std::vector<std::string> read_from;  // files of the cache
  std::vector<Plan::Written> written;  // what the packs are, all ranks
  bool complete = false;
  std::vector<std::string> without_manifest;  // directories of ranks whose bytes were not verified
  std::vector<std::string> outputs;
};

// Errors: no cache of that world, rank and zero mode; several identities (usage, listing them); neither a
// manifest nor a model (usage); a part that is missing or has the wrong size; a tier that needs FP4 planes
// that the cache lacks; a section that differs from the manifest (difference).
FromCacheReport packs_from_planescache(const Context& context, const FromCacheRequest& request,
                                       const Kernels& kernels);

}  // namespace planesmith
