// Taking caches and packs out of a store, so that a second run can finish what a crash cut short. Everything
// goes by names below the root of the planes cache or the directory of the packs; a link in the way is an
// Error, never followed.
#pragma once

#include <string>
#include <vector>

#include "base/context.h"
#include "base/dir.h"
#include "base/lock_file.h"
#include "store/store.h"

namespace planesmith {

// Held while a store is changed: what builders and the engine lock. Errors: another process holds a lock.
struct StoreLocks {
  std::vector<File> engine;  // .lock files of packs
  std::vector<LockFile> builders;
};
void take_engine_lock(const Context& context, const Dir& store, const std::string& name, StoreLocks& locks);
void take_cache_locks(const Context& context, const Dir& root, const std::string& name, StoreLocks& locks);
void take_pack_locks(const Context& context, const Dir& store, const std::string& stem, StoreLocks& locks);

// Removes a rank's directory with all in it, meta.json last, and the directory of its key where that is empty
// then. What is not there is no error; a link or file of that name goes by itself.
void remove_cache(const Dir& root, const std::string& name);

// What remove_cache() has to leave on NFS and FUSE, where a file that is open, as a lock is, keeps its
// directory from going: for the time after the locks were let go of.
void remove_emptied(const Dir& root, const std::string& name);

// Removes a pack and what goes with it, the sidecar last and when the rest is durably gone: a reader that
// found the .pack without it would empty it, and after a rekey it still belongs to the other identity.
void remove_pack(const Dir& store, const std::string& stem);

// Removes builders' locks in a directory of packs whose pack is gone: the one that removed it was killed
// before letting go of them. One that another process holds stays.
void remove_stray_locks(const Context& context, const Dir& store);

}  // namespace planesmith
