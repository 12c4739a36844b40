// Room on a disk.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "base/os.h"

namespace planesmith {

// Bytes an ordinary user may still write where the directory is or will be. None, and noted, where the file
// system does not tell (some FUSE and network mounts): nothing available in spite of free blocks, or no
// blocks at all.
std::optional<std::uint64_t> known_free_space(Os& os, const std::string& directory);

// Error where it is known that `bytes` do not fit; says how to go on all the same. `reused`: bytes of files
// there that make room before or while those are written.
void require_space(Os& os, const std::string& directory, std::uint64_t bytes, std::uint64_t reused = 0);

}  // namespace planesmith
