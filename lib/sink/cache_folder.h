// Planes caches that are there already.
#pragma once

#include <string>
#include <vector>

#include "base/os.h"
#include "format/planescache.h"

namespace planesmith {

struct CacheFolder {
  std::string path;  // <root>/v2/<key>/tp<W>-rank<r>
  format::CacheMeta meta;
};

// Every rank folder below root whose meta.json is what the engine would have written for it, sorted by path. Others are
// passed over: the engine would not find them either.
std::vector<CacheFolder> find_cache_folders(Os& os, const std::string& root);

}  // namespace planesmith
