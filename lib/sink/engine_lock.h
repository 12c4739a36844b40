// The engine's own lock of a pack (FORMAT.md section 7): an flock on <stem>.lock, which stays. The engine
// opens it read-write, so users who may write the pack may open its lock. No other user may: one who can open
// a lock can hold it.
#pragma once

#include <optional>
#include <string>

#include "base/context.h"
#include "base/dir.h"

namespace planesmith {

// Makes the file where it is missing. None: another process holds the lock. Errors: no flock on this file
// system; the name is a link.
std::optional<File> try_engine_lock(const Context& context, const Dir& dir, const std::string& name);

// Waits for it, polling Stop, and says for whom.
File wait_for_engine_lock(const Context& context, const Dir& dir, const std::string& name);

// Refuses a directory (or where it will be) whose file system has no flock, before anything is made there.
void require_flock(Os& os, const std::string& directory);

}  // namespace planesmith
