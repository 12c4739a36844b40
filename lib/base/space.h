// Free space of file systems.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "base/os.h"

namespace planesmith {

// Bytes that an ordinary user can still write where the directory is or will be.
// None, and a note, where the file system does not tell (some FUSE and network
// mounts): it reports nothing available despite free blocks, or no blocks at all.
std::optional<std::uint64_t> known_free_space(Os& os, const std::string& directory);

// Error where `bytes` are known not to fit; it names the option that skips the check. `reused`: bytes of
// existing files that are freed before or while those are written.
void require_space(Os& os, const std::string& directory, std::uint64_t bytes, std::uint64_t reused = 0);

}  // namespace planesmith
