// What files hold: where their data and holes are; copies and comparisons of whole files.
#pragma once

#include <cstdint>

#include "base/context.h"
#include "base/file.h"

namespace planesmith {

// The offset of the first data from `at` on; `end` if all before `end` is a hole. A file system that cannot
// tell has data everywhere.
std::uint64_t next_data(const Context& context, const File& file, std::uint64_t at, std::uint64_t end);
// The same for the first hole.
std::uint64_t next_hole(const Context& context, const File& file, std::uint64_t at, std::uint64_t end);

// Shares the blocks where the file system can, else copies them; holes stay holes. `to` is new and empty, and
// is durable afterwards. Stop is polled.
void copy_contents(const Context& context, const File& from, File& to);

// Byte for byte; a hole equals zeros. Reads pieces of 1 MiB, but none that is a hole. Stop is polled.
bool same_contents(const Context& context, const File& a, const File& b);

}  // namespace planesmith
