// Free space of file systems.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/os.h"

namespace planesmith {

// Bytes that an ordinary user can still write where the directory is or will be.
// None, and a note, where the file system does not tell (some FUSE and network
// mounts): it reports nothing available despite free blocks, or no blocks at all.
std::optional<std::uint64_t> known_free_space(Os& os, const std::string& directory);

// Error where `bytes` are known not to fit; it names the option that skips the check. `reused`: bytes of
// existing files that are freed before or while those are written.
void require_space(Os& os, const std::string& directory, std::uint64_t bytes, std::uint64_t reused = 0);

// The sum of the n largest sizes, or of all.
std::uint64_t sum_of_largest(std::vector<std::uint64_t> sizes, std::size_t n);

// How many files, 1 to `most`, can be replaced side by side where `free` bytes are free. needed(n): bytes
// that it takes with n at once, which does not fall with n; if it is the same for all n, the answer is
// `most`.
std::size_t most_that_fit(std::size_t most, std::uint64_t free,
                          const std::function<std::uint64_t(std::size_t n)>& needed);

}  // namespace planesmith
