// What is there to pack: walks the sources and finds the holes.
#pragma once

#include <string>
#include <vector>

#include "base/context.h"
#include "base/file.h"
#include "chunks/member.h"

namespace planesmith::chunks {

// Where a member comes from, and what tells that its content was not changed since. Links are followed.
struct Origin {
  std::string path;  // on this machine
  std::uint64_t size = 0, device = 0, inode = 0;
  std::int64_t mtime_ns = 0, ctime_ns = 0;
};
Origin origin_of(std::string path, const struct stat& st);
// Throws an Error where the open file is no longer what it was. A changed ctime is none: a hard link that is
// made as a backup moves it too.
void check_unchanged(const File& file, const Origin& origin);

struct ScanOptions {
  std::vector<std::string> sources;
  std::string as{};          // what the single source is called in the archive; empty: its own name
  bool dereference = false;  // pack what symbolic links lead to in their place
};

struct Tree {
  std::vector<Member> members;  // in path order; offsets and digests not yet known
  std::vector<Origin> origins;  // of each
};

// Files, directories and symbolic links under the sources, named relative to each source's parent. A source
// that is itself a link is packed as what it leads to, and so are the links of a Hugging Face snapshot that
// lead into its repository's blobs. Two names of one file are a file and a hard link. Holes are found by
// reading: which blocks a file system allocated makes no difference. Errors: links that lead to what is not
// packed, by name; devices, FIFOs, sockets; names that are not UTF-8; sources of the same name.
Tree scan(const ScanOptions& options, const Context& context);

}  // namespace planesmith::chunks
