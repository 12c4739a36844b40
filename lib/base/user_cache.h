// What the programs remember between runs and can do without: known digests, how far a verification got.
#pragma once

#include <string>
#include <string_view>

#include "base/json.h"
#include "base/os.h"

namespace planesmith {

// $XDG_CACHE_HOME/planesmith, else ~/.cache/planesmith; empty where the environment names neither.
std::string user_cache_directory();

// A small JSON document in that directory, stored under `group` and any
// text as `key`. Never an Error: recall() returns null where it cannot
// read, remember() and forget() then do nothing; the reason is noted once.
Json recall(Os& os, std::string_view group, std::string_view key);
void remember(Os& os, std::string_view group, std::string_view key, const Json& value);
void forget(Os& os, std::string_view group, std::string_view key);

// What shows whether a file changed: size, both times, inode.
Json file_stamp(const struct stat& status);
// Whether two stamps agree in all but ctime, which a new hard link or mode also changes.
bool same_but_ctime(const Json& a, const Json& b);

}  // namespace planesmith
