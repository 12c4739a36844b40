// An existing planes cache as the source of packs.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "format/pack.h"
#include "pipeline/from_planescache.h"

namespace planesmith {

// The origin of a pack's section.
struct Origin {
  format::Section made;    // the section in the pack
  std::string_view part;   // the cache's part that it is copied or derived from
  format::Section stored;  // the section in that part
  bool derived() const { return made != stored; }
};

// One rank's directory of the cache.
struct CacheSource {
  std::string directory;
  CacheFacts facts;                  // layers: layer indices; the position is the layer key
  std::optional<Manifest> manifest;  // none: the bytes cannot be verified
  std::string geometry_from;         // "manifest /x/manifest.json": for messages
  format::RankShape shape;
  std::vector<std::vector<Origin>> origins;  // of each tier of the request, in the order of its slot

  // The digests of a part's sections, one for each expert; null without a manifest.
  const std::vector<Xxh3>* known(const std::string& part_file) const;
};

// Errors: a part that the layer of a pack needs is missing or has the wrong size.
void check_parts(const Context& context, const CacheSource& source, const std::vector<Origin>& origins,
                 std::uint64_t layer);

// The directory of each requested rank; if a rank has a quintal and a nibble cache, one that has the planes
// for all tiers. Errors: as packs_from_planescache().
std::vector<CacheSource> cache_sources(const Context& context, const FromCacheRequest& request);

}  // namespace planesmith
