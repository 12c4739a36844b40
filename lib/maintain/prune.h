// Removes the caches and packs of identities that are no longer wanted.
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
  std::vector<Item> removed;  // without force: what would be removed
  std::vector<Item> kept;
};

// Never removes anything without an identity (a directory without meta.json, a pack without sidecar). Errors:
// an identity to keep is not there (usage), because a misspelt one would remove the wrong files; another
// process holds a lock; a link in place of a directory.
PruneReport prune(const Context& context, const PruneRequest& request);

}  // namespace planesmith
