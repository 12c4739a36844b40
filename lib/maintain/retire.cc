#include "maintain/retire.h"

#include <fmt/format.h>

#include <regex>

#include "base/error.h"

namespace planesmith {
namespace {

bool is_real_directory(Os& os, const std::string& path) {
  struct stat st {};
  return os.lstat(path.c_str(), &st) == 0 && S_ISDIR(st.st_mode);
}

void remove_tree(Os& os, const std::string& path) {
  for (const std::string& name : list_dir(os, path)) {
    const std::string inner = join(path, name);
    if (is_real_directory(os, inner))
      remove_tree(os, inner);
    else
      remove_file(os, inner);
  }
  remove_dir_if_empty(os, path);
}

// Locks of builders: the one on the whole, without which no builder gets another, and those that are held
// already.
void take_builders_locks(Os& os, const std::string& directory, const std::string& prefix, StoreLocks& locks) {
  const auto take = [&](const std::string& name) {
    if (!LockFile::try_take(os, join(directory, name), locks.builders))
      throw Error(join(directory, name), "is locked: a build is running there; let it finish first");
  };
  take(prefix + ".lock");
  for (const std::string& name : list_dir(os, directory))
    if (name.starts_with(prefix + ".layer") && name.ends_with(".lock")) take(name);
}

}  // namespace

void take_lock(Os& os, const File& file) {
  if (!try_flock(os, file))
    throw Error(file.path(), "is locked: a build or an engine is writing this pack; let it finish first");
}

void take_locks(Os& os, const FoundCache& cache, StoreLocks& locks) {
  take_builders_locks(os, cache.path, std::string(kCacheRecords), locks);
}

void take_locks(Os& os, const FoundPack& pack, StoreLocks& locks) {
  take_builders_locks(os, parent_of(pack.stem), "." + name_of(pack.stem), locks);
  if (!exists(os, pack.stem + ".lock")) return;  // the one that writes the pack would have made it
  locks.engine.push_back(File::open_write(os, pack.stem + ".lock"));
  take_lock(os, locks.engine.back());
}

void remove_cache(Os& os, const std::string& directory) {
  if (exists(os, directory)) {
    for (const std::string& name : list_dir(os, directory)) {
      const std::string inner = join(directory, name);
      if (is_real_directory(os, inner))
        remove_tree(os, inner);
      else if (name != format::kMetaName)
        remove_file(os, inner);
    }
    sync_dir(os, directory);
    remove_file(os, join(directory, format::kMetaName));
    remove_dir_if_empty(os, directory);
  }
  const std::string key = parent_of(directory);
  if (!exists(os, key)) return;
  sync_dir(os, key);
  if (remove_dir_if_empty(os, key)) sync_dir(os, parent_of(key));
}

void remove_pack(Os& os, const std::string& stem) {
  const std::string directory = parent_of(stem), records = join(directory, fmt::format(".{}", name_of(stem)));
  remove_file(os, stem + ".pack");
  if (is_real_directory(os, records)) remove_tree(os, records);
  remove_file(os, stem + ".pack.manifest.json");
  remove_file(os, stem + ".lock");
  sync_dir(os, directory);
  remove_file(os, stem + ".json");
  sync_dir(os, directory);
}

void remove_stray_locks(Os& os, const std::string& directory) {
  if (directory.empty() || !exists(os, directory)) return;
  static const std::regex lock_name(
      "\\.([a-z0-9]+\\.v2\\.[0-9a-f]{20}\\.rank[0-9]+of[0-9]+)(?:\\.layer[0-9]+)?\\.lock");
  for (const std::string& name : list_dir(os, directory)) {
    std::smatch match;
    if (!std::regex_match(name, match, lock_name)) continue;
    const std::string pack = match[1], stem = join(directory, pack);
    if (exists(os, stem + ".pack") || exists(os, stem + ".json") || exists(os, join(directory, "." + pack)))
      continue;
    std::vector<LockFile> stale;  // taken once more, which removes it
    LockFile::try_take(os, join(directory, name), stale);
  }
}

}  // namespace planesmith
