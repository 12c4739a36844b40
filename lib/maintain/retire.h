// Taking caches and packs out of a store, so that a second run can finish what a crash cut short.
#pragma once

#include <string>
#include <vector>

#include "base/context.h"
#include "base/file.h"
#include "base/lock_file.h"
#include "store/store.h"

namespace planesmith {

// Held while a store is changed: what builders and the engine lock. Errors: one of them holds a lock.
struct StoreLocks {
  std::vector<File> engine;  // .lock files of packs
  std::vector<LockFile> builders;
};
void take_lock(Os& os, const File& engine_lock);
void take_locks(Os& os, const FoundCache& cache, StoreLocks& locks);
void take_locks(Os& os, const FoundPack& pack, StoreLocks& locks);

// Removes a rank's directory with all in it, meta.json last, and the directory of its key where that is empty
// then. What is not there is no error.
void remove_cache(Os& os, const std::string& directory);

// Removes a pack and what goes with it, the sidecar last and when the rest is durably gone: a reader that
// found the .pack without it would empty it, and after a rekey it is still somebody else's.
void remove_pack(Os& os, const std::string& stem);

// Removes builders' locks in a directory of packs whose pack is gone: the one that removed it was killed
// before letting go of them. One that somebody holds stays.
void remove_stray_locks(Os& os, const std::string& directory);

}  // namespace planesmith
