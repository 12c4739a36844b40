// Removing the caches and packs of identities that are not wanted any more.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/context.h"

namespace planesmith {

struct PruneRequest {
  std::string planescache, store;  // root and directory; empty: none
  std::vector<std::string> keep;   // identities
  bool force = false;              // without it nothing is removed
};

struct PruneReport {
  struct Item {
    std::string ckpt_id, path;  // directory of a rank, or a .pack
    std::uint64_t bytes = 0;    // on disk
  };
  std::vector<Item> removed;  // or, without force, what would be
  std::vector<Item> kept;
};

// What has no identity (a directory without meta.json, a pack without sidecar) is never removed. Errors:
// usage where an identity to keep is not there, which may be a slip that would cost the wrong one; another
// process holds a lock; a link stands where a directory should.
PruneReport prune(const Context& context, const PruneRequest& request);

}  // namespace planesmith
