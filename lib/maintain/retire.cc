#include "maintain/retire.h"

#include <fmt/format.h>

#include <regex>

#include "base/error.h"
#include "sink/engine_lock.h"

namespace planesmith {
namespace {

// Locks of builders: the one on the whole, without which no builder gets another, and those that are held
// already.
void take_builders_locks(const Context& context, const Dir& dir, const std::string& prefix,
                         StoreLocks& locks) {
  const auto take = [&](const std::string& name) {
    if (!LockFile::try_take(dir, name, locks.builders, context.group_shared))
      throw Error(dir.path_of(name),
                  fmt::format("is locked: a build is running there ({}); let it finish first",
                              LockFile::holder(dir, name)));
  };
  take(prefix + ".lock");
  for (const std::string& entry : dir.list())
    if (const std::optional<std::string> name = LockFile::lock_of(entry, prefix + ".layer")) take(*name);
}

}  // namespace

void take_engine_lock(const Context& context, const Dir& store, const std::string& name, StoreLocks& locks) {
  std::optional<File> lock = try_engine_lock(context, store, name);
  if (!lock)
    throw Error(store.path_of(name),
                "is locked: a build or an engine is writing this pack; let it finish first");
  locks.engine.push_back(std::move(*lock));
}

void take_cache_locks(const Context& context, const Dir& root, const std::string& name, StoreLocks& locks) {
  // Of a link nothing but the link is removed.
  if (const std::optional<struct stat> there = root.look(name); there && !S_ISDIR(there->st_mode)) return;
  take_builders_locks(context, root.open_dir(name), std::string(kCacheRecords), locks);
}

void take_pack_locks(const Context& context, const Dir& store, const std::string& stem, StoreLocks& locks) {
  take_builders_locks(context, store, "." + stem, locks);
  // A process that writes the pack has made the engine's lock.
  if (store.exists(stem + ".lock")) take_engine_lock(context, store, stem + ".lock", locks);
}

void remove_cache(const Dir& root, const std::string& name) {
  if (const std::optional<struct stat> there = root.look(name); there && !S_ISDIR(there->st_mode)) {
    root.unlink(name);
  } else if (there) {
    const Dir dir = root.open_dir(name);
    const std::string meta(format::kMetaName);
    for (const std::string& inner : dir.list())
      if (inner != meta) dir.remove_tree(inner);
    dir.sync();
    dir.unlink(meta);
    root.rmdir(name);
  }
  const std::string key = parent_of(name);
  const std::optional<Dir> dir = root.find_dir(key);
  if (!dir) return;
  dir->sync();
  if (root.rmdir(key)) root.open_dir(parent_of(key)).sync();
}

void remove_emptied(const Dir& root, const std::string& name) {
  const std::string key = parent_of(name);
  if (!root.find_dir(key)) return;
  for (const std::string& each : {name, name + ".tmp"})
    if (const auto there = root.look(each); there && S_ISDIR(there->st_mode)) root.rmdir(each);
  if (root.rmdir(key)) root.open_dir(parent_of(key)).sync();
}

void remove_pack(const Dir& store, const std::string& stem) {
  store.unlink(stem + ".pack");
  store.unlink(stem + ".pack.tmp");
  store.remove_tree("." + stem);
  store.unlink(stem + ".pack.manifest.json");
  store.unlink(stem + std::string(kHeatSuffix));
  store.unlink(stem + ".lock");
  store.sync();
  store.unlink(stem + ".json");
  store.sync();
}

void remove_stray_locks(const Context& context, const Dir& store) {
  static const std::regex lock_name(
      "\\.([a-z0-9]+\\.v2\\.[0-9a-f]{20}\\.rank[0-9]+of[0-9]+)(?:\\.layer[0-9]+)?\\.lock");
  for (const std::string& entry : store.list()) {
    const std::optional<std::string> name = LockFile::lock_of(entry, ".");
    std::smatch match;
    if (!name || !std::regex_match(*name, match, lock_name)) continue;
    const std::string stem = match[1];
    if (store.exists(stem + ".pack") || store.exists(stem + ".json") || store.exists("." + stem)) continue;
    std::vector<LockFile> stale;  // taken once more, which removes it
    LockFile::try_take(store, *name, stale, context.group_shared);
  }
}

}  // namespace planesmith
