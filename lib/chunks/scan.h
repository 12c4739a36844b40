// Finds what to pack: walks the sources and finds the holes.
#pragma once

#include <string>
#include <vector>

#include "base/context.h"
#include "base/file.h"
#include "chunks/member.h"

namespace planesmith::chunks {

// Where a member comes from, and the stamp that shows whether its content changed since. Links are followed.
struct Origin {
  std::string path;  // on this machine
  std::uint64_t size = 0, device = 0, inode = 0;
  std::int64_t mtime_ns = 0, ctime_ns = 0;
};
Origin origin_of(std::string path, const struct stat& st);
// Error: the open file has changed since.
// ctime does not count, because a hard link made by a backup changes it too.
void check_unchanged(const File& file, const Origin& origin);

struct ScanOptions {
  std::vector<std::string> sources;
  std::string as{};          // name of the single source in the archive; empty: its own name
  bool dereference = false;  // pack the targets of symbolic links in place of the links
};

struct Tree {
  std::vector<Member> members;  // in path order; offsets and digests not yet known
  std::vector<Origin> origins;  // of each member
};

// Files, directories and symbolic links under the sources, named relative to each source's parent. A source
// that is itself a link is packed as its target, and so are the links of a Hugging Face snapshot into its
// repository's blobs. Two names of one file become a file and a hard link. Holes are found by reading, so the
// result does not depend on the blocks that a file system allocated. Errors: links that lead out of what is
// packed, by name; devices, FIFOs, sockets; names that are not UTF-8; sources of the same name.
Tree scan(const ScanOptions& options, const Context& context);

}  // namespace planesmith::chunks
