// What a file's status tells about it.
#pragma once

#include <sys/stat.h>

#include <cstdint>
#include <string>

#include "base/os.h"

namespace planesmith {

// Whether both are the same file: device and inode.
inline bool same_file(const struct stat& a, const struct stat& b) {
  return a.st_dev == b.st_dev && a.st_ino == b.st_ino;
}

// Whether a file is unchanged between two calls of stat: inode, size and modification time. Not ctime, which
// a new hard link or mode also changes, and which changes by itself on some network file systems.
bool unchanged(const struct stat& before, const struct stat& after);

// Bytes on disk; holes take none.
inline std::uint64_t allocated_bytes(const struct stat& status) {
  return static_cast<std::uint64_t>(status.st_blocks) * 512;
}

// stat() and lstat(): whether they succeeded; errno says why not.
bool stat_of(Os& os, const std::string& path, struct stat& out);
bool lstat_of(Os& os, const std::string& path, struct stat& out);

// Whether the effective user may use the path so: R_OK, W_OK, X_OK. errno says why not.
bool accessible(Os& os, const std::string& path, int mode);
// access() of old kernels does not tell, nor does it where the mode forbids writing already.
bool on_read_only_mount(Os& os, const std::string& path);

// "user alice (1000), mode 0644"
std::string owner_and_mode(const struct stat& status);

}  // namespace planesmith
