#include "maintain/retire.h"

#include <fmt/format.h>

#include "base/error.h"
#include "base/temporary.h"
#include "sink/engine_lock.h"

namespace planesmith {
namespace {

// Takes the builders' locks:
// the one on the whole, without which no builder gets another, and the existing ones of layers.
void take_builders_locks(const Context& context, const Dir& dir, const std::string& records,
                         StoreLocks& locks) {
  const auto take = [&](const std::string& name) {
    if (!LockFile::try_take(dir, name, locks.builders, context.group_shared))
      throw Error(dir.path_of(name),
                  fmt::format("is locked: a build is running there ({}); let it finish first",
                              LockFile::holder(dir, name)));
  };
  take(format::records_lock(records));
  for (const std::string& entry : dir.list())
    if (const std::string name = LockFile::lock_of(entry); format::is_layer_lock(name, records)) take(name);
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
  // If it is a link, only the link itself is removed, which needs no lock.
  if (const std::optional<struct stat> there = root.look(name); there && !S_ISDIR(there->st_mode)) return;
  take_builders_locks(context, root.open_dir(name), std::string(format::kCacheRecords), locks);
}

void take_pack_locks(const Context& context, const Dir& store, const std::string& stem, StoreLocks& locks) {
  take_builders_locks(context, store, format::pack_records(stem), locks);
  // A process that writes the pack has made the engine's lock.
  if (const std::string lock = format::lock_file(stem); store.exists(lock))
    take_engine_lock(context, store, lock, locks);
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
  store.unlink(format::pack_file(stem));
  store.unlink(temporary_name(format::pack_file(stem)));
  store.remove_tree(format::pack_records(stem));
  store.unlink(format::pack_manifest_file(stem));
  store.unlink(format::heat_file(stem));
  store.unlink(format::lock_file(stem));
  store.sync();
  store.unlink(format::sidecar_file(stem));
  store.sync();
}

void remove_stray_locks(const Context& context, const Dir& store) {
  for (const std::string& entry : store.list()) {
    const std::string name = LockFile::lock_of(entry), records = format::records_of_lock(name);
    const std::string stem = records.starts_with('.') ? records.substr(1) : "";
    if (!format::parse_pack_stem(stem)) continue;
    if (store.exists(format::pack_file(stem)) || store.exists(format::sidecar_file(stem)) ||
        store.exists(records))
      continue;
    std::vector<LockFile> stale;  // taking it again removes it
    LockFile::try_take(store, name, stale, context.group_shared);
  }
}

}  // namespace planesmith
