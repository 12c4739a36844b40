// A planes cache that is there already, as the source of packs.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "format/pack.h"
#include "pipeline/from_planescache.h"

namespace planesmith {

// Where a section of a pack comes from.
struct Origin {
  format::Section made;    // the section as the pack holds it
  std::string_view part;   // the cache's part that it is, or is derived from
  format::Section stored;  // the section that part holds
  bool derived() const { return made != stored; }
};

// A rank's directory.
struct CacheSource {
  std::string directory;
  CacheFacts facts;                  // layers: indices; the position is the layer key
  std::optional<Manifest> manifest;  // none: nothing says what the bytes should be
  std::string geometry_from;         // "manifest /x/manifest.json": for people
  format::RankShape shape;
  std::vector<std::vector<Origin>> origins;  // of each tier of the request, in the order of its slot

  // The digests of a part's sections, one for each expert; null where there is no manifest.
  const std::vector<Xxh3>* known(const std::string& part_file) const;
};

// Errors: a part that a pack's layer is made of is missing or of the wrong size.
void check_parts(const Context& context, const CacheSource& source, const std::vector<Origin>& origins,
                 std::uint64_t layer);

// The directory of each rank that was asked for; where a rank has a split and a nibble cache, one that all
// tiers can be made of. Errors: as packs_from_planescache().
std::vector<CacheSource> cache_sources(const Context& context, const FromCacheRequest& request);

}  // namespace planesmith
