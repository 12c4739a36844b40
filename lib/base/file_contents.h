// Copying and comparing whole files.
#pragma once

#include "base/context.h"
#include "base/file.h"

namespace planesmith {

// Shares the blocks where the file system can, else copies them; holes stay holes. `to` is new and empty, and
// is durable afterwards. Stop is polled.
void copy_contents(const Context& context, const File& from, File& to);

// Byte for byte.
bool same_contents(const Context& context, const File& a, const File& b);

}  // namespace planesmith
