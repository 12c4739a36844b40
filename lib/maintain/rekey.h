// Another identity for caches and packs, without copying data and without a moment in which a reader that
// follows the engine's rules would find neither the old nor the new one whole (FORMAT.md sections 6 and 7).
//
// The new ones are made first, all of them, out of hard links to the data and newly written meta.json,
// sidecars and manifests; only then do the old ones go, all of them. So a server of several ranks finds all
// its ranks under the old identity until the last new one is durable, and under the new identity from then
// on. A rename alone could not do that: between the directory's new name and its new meta.json neither
// identity would match.
//
//   planes cache  links and meta.json are put into <new directory>.tmp, which is renamed when it is complete.
//                 The old directory is renamed to <old directory>.tmp before it is emptied, since an engine
//                 that found it without a part might write that part anew, into the very file that the new
//                 directory shares. Where that rename is refused (overlayfs) it is emptied in place,
//                 meta.json last.
//   pack          .lock and sidecar first, the .pack last and only when they are durable: a .pack without its
//                 sidecar is what the engine empties. Going, the .pack goes first, for the same reason.
//
// Every step is durable before one that relies on it is taken. A second run after a crash knows what was
// done: a new directory or pack counts as made where its files are those of the old one or equal to them.
// Where the file system refuses hard links, data are copied on request only.
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
  std::vector<Item> moved;           // that had the old identity, or still parts of it
  std::vector<std::string> already;  // that had the new one before
};

// Every world, rank, zero mode and tier found. Refused before anything is changed: nothing has the old
// identity (those found are listed) nor the new one; a directory or pack that is not what its name says,
// incomplete, being built, or locked by another process; something else under the new name. Error later: the
// file system has no hard links, and no copy was asked for.
RekeyReport rekey(const Context& context, const RekeyRequest& request);

}  // namespace planesmith
