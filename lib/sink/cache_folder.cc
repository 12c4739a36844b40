#include "sink/cache_folder.h"

#include "base/error.h"
#include "base/file.h"

namespace planesmith {

std::vector<CacheFolder> find_cache_folders(Os& os, const std::string& root) {
  std::vector<CacheFolder> found;
  const std::string keys = join(root, "v2");
  if (!exists(os, keys)) return found;
  for (const std::string& key : list_dir(os, keys)) {
    const std::string key_folder = join(keys, key);
    if (!S_ISDIR(status(os, key_folder).st_mode)) continue;
    for (const std::string& name : list_dir(os, key_folder)) {
      const std::string folder = join(key_folder, name), meta_path = join(folder, format::kMetaName);
      try {
        if (!exists(os, meta_path)) continue;
        const format::CacheMeta meta = format::parse_meta(read_text(os, meta_path, 1 << 20), meta_path);
        if (join(root, format::cache_folder(meta)) == folder) found.push_back({folder, meta});
      } catch (const Error&) {
        continue;
      }
    }
  }
  return found;
}

}  // namespace planesmith
