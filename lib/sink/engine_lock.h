// The engine's own lock of a pack (FORMAT.md section 7): an flock on <stem>.lock, a file that is never
// removed. The engine opens it read-write, so users who may write the pack may open its lock. Other users may
// not: a user who can open a lock can hold it.
#pragma once

#include <optional>
#include <string>

#include "base/context.h"
#include "base/dir.h"

namespace planesmith {

// Creates the file if it is missing. None: another process holds the lock. Errors: the file system has no
// flock; the name is a link.
std::optional<File> try_engine_lock(const Context& context, const Dir& dir, const std::string& name);

// Waits for the lock, polls Stop, and says who holds it.
File wait_for_engine_lock(const Context& context, const Dir& dir, const std::string& name);

// Error: the file system of the directory, or of its nearest existing ancestor, has no flock. Creates
// nothing.
void require_flock(Os& os, const std::string& directory);

}  // namespace planesmith
