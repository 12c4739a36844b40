// What is there to pack: walks the sources and finds the holes.
#pragma once

#include <string>
#include <vector>

#include "base/context.h"
#include "base/file.h"
#include "chunks/member.h"

namespace planesmith::chunks {

// Where a member comes from, and what tells that nobody changed it since.
struct Origin {
  std::string path;  // on this machine
  std::uint64_t size = 0, inode = 0;
  std::int64_t mtime_ns = 0, ctime_ns = 0;
};
Origin origin_of(std::string path, const struct stat& st);
// Throws an Error where the open file is no longer what it was.
void check_unchanged(const File& file, const Origin& origin);

struct Tree {
  std::vector<Member> members;  // in path order; offsets and digests not yet known
  std::vector<Origin> origins;  // of each
};

// Files, directories and symbolic links under the sources, named relative to each source's parent, or a single
// source by `as` where that is not empty. Two names of one file are a file and a hard link. Holes are found by reading: which blocks a file system allocated
// makes no difference. Errors: anything else (devices, FIFOs, sockets), names that are not UTF-8, sources of
// the same name.
Tree scan(const std::vector<std::string>& sources, const std::string& as, const Context& context);

}  // namespace planesmith::chunks
