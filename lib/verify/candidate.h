// A file that is there with the right size, and what reading it showed.
#pragma once

#include <sys/stat.h>

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "manifest/digest_files.h"
#include "manifest/manifest.h"
#include "verify/verify_files.h"

namespace planesmith {

struct Candidate {
  const FileEntry* entry = nullptr;
  struct stat status {};
  bool xxh3 = false, sha256 = false, git_sha1 = false;  // the digests that are compared
  std::size_t blocks = 1;                               // units in which it can be found good
  std::vector<std::size_t> bad{};                       // blocks
  std::vector<BlockRange> strays{};                     // from bytes that should be zero to the next row
  std::vector<std::string> trouble{};                   // other differences, in words
  std::optional<std::string> unreadable{};

  bool good() const { return bad.empty() && trouble.empty() && !unreadable; }
  // Only as a whole, by a digest of all of it.
  bool whole() const { return sha256 || git_sha1; }

  // Compares what was read with the manifest's digests; true where all of that is good.
  bool take(const Manifest& manifest, const Digested& done);
  // What it all comes to: one Difference for what cannot be read and one for what differs, or none.
  std::vector<Difference> differences(const Manifest& manifest) const;
};

}  // namespace planesmith
