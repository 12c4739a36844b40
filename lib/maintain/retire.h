// Removes caches and packs from a store, so that a second run can finish
// after a crash. Names are relative to the root of the planes cache or the
// directory of the packs; a link in the way is an Error and never followed.
#pragma once

#include <string>
#include <vector>

#include "base/context.h"
#include "base/dir.h"
#include "base/lock_file.h"
#include "store/store.h"

namespace planesmith {

// The locks of builders and the engine, held while a store is changed. Error: another process holds a lock.
struct StoreLocks {
  std::vector<File> engine;  // .lock files of packs
  std::vector<LockFile> builders;
};
void take_engine_lock(const Context& context, const Dir& store, const std::string& name, StoreLocks& locks);
void take_cache_locks(const Context& context, const Dir& root, const std::string& name, StoreLocks& locks);
void take_pack_locks(const Context& context, const Dir& store, const std::string& stem, StoreLocks& locks);

// Removes a rank's directory with all in it, meta.json last, and the directory of its key if that is then
// empty. A missing directory is not an error; of a link or file of that name only the name is removed.
void remove_cache(const Dir& root, const std::string& name);

// Removes the directories that remove_cache() could not: on NFS and FUSE an open file, such as a lock, keeps
// its directory. To be called after the locks were released.
void remove_emptied(const Dir& root, const std::string& name);

// Removes a pack and its files, the sidecar last and after the rest is durably gone: a reader that found the
// .pack without it would empty it, and after a rekey its data still belong to the other identity.
void remove_pack(const Dir& store, const std::string& stem);

// Removes builders' locks of packs that are gone, left by a run that was killed before it released them.
// Locks that another process holds stay.
void remove_stray_locks(const Context& context, const Dir& store);

}  // namespace planesmith
