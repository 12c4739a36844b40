// Gives caches and packs another identity, without copying data. At any moment a reader that follows the
// engine's rules finds either the old or the new one complete (FORMAT.md sections 6 and 7).
//
// First all new ones are made, from hard links to the data and newly written meta.json, sidecars and
// manifests; only then all old ones are removed. So a server of several ranks finds all its ranks under the
// old identity until the last new one is durable, and under the new identity from then on. A rename alone
// could not do that: between the directory's new name and its new meta.json neither identity would match.
//
//   planes cache  Links and meta.json are put into <new directory>.tmp, which is renamed when it is complete.
//                 The old directory is renamed to <old directory>.tmp before it is emptied: an engine that
//                 found it without a part might write that part again, into the file that the new directory
//                 shares. Where that rename is refused (overlayfs), it is emptied in place, meta.json last.
//   pack          .lock and sidecar are made first, the .pack last and only when they are durable, because
//                 the engine empties a .pack without sidecar. The .pack is removed first, for the same
// reason.
//
// Every step is durable before a step that relies on it. A second run after a crash continues: a new
// directory or pack counts as made if its files are those of the old one or equal to them. If the file system
// refuses hard links, data are copied only on request.
#pragma once

#include <string>
#include <vector>

#include "base/context.h"

namespace planesmith {

struct RekeyRequest {
  std::string from, to;
  std::string planescache, store;  // root and directory; empty: none
  bool dry_run = false;            // checks, changes nothing
  bool copy = false;               // copies data where the file system refuses hard links
};

struct RekeyReport {
  struct Item {
    std::string from, to;  // directories of ranks, or paths of packs without suffix
  };
  std::vector<Item> moved;           // had the old identity, completely or in part
  std::vector<std::string> already;  // had the new identity before
};

// Rekeys every world, rank, zero mode and tier found. Errors before anything is changed: nothing has the old
// or the new identity (the identities found are listed); a directory or pack is not what its name says, is
// incomplete, is being built, or is locked by another process; something else has the new name. Error later:
// the file system refuses hard links and `copy` is not set.
RekeyReport rekey(const Context& context, const RekeyRequest& request);

}  // namespace planesmith
