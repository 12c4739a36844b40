// Where the programs keep what they may forget: digests known from earlier runs, how far a verification got.
#pragma once

#include <string>
#include <string_view>

#include "base/json.h"
#include "base/os.h"

namespace planesmith {

// $XDG_CACHE_HOME/planesmith, else ~/.cache/planesmith; empty where the environment names neither.
std::string user_cache_directory();

// A small JSON document in that directory, found again by `group` and any text as `key`. Nothing here ever
// fails: what cannot be read is null, what cannot be written is forgotten.
Json recall(Os& os, std::string_view group, std::string_view key);
void remember(Os& os, std::string_view group, std::string_view key, const Json& value);
void forget(Os& os, std::string_view group, std::string_view key);

// What tells that a file was not changed since: size, both times, inode.
Json file_stamp(const struct stat& status);
// Whether two of them tell the same in all but ctime, which another hard link or a change of mode moves, too.
bool same_but_ctime(const Json& a, const Json& b);

}  // namespace planesmith
