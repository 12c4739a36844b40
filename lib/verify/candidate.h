// A file of the right size, and what reading it showed.
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
  bool xxh3 = false, sha256 = false, git_sha1 = false;  // which digests are compared
  std::size_t blocks = 1;                               // parts that can be found good separately
  std::vector<std::size_t> bad{};                       // numbers of bad blocks
  std::vector<BlockRange> strays{};    // each from a non-zero byte between rows to the next row
  std::vector<std::string> trouble{};  // other differences, as text
  std::optional<std::string> unreadable{};
  bool denied = false;  // because this user may not

  bool good() const { return bad.empty() && trouble.empty() && !unreadable; }
  // Whether it can be verified only as a whole, by a digest of the file.
  bool whole() const { return sha256 || git_sha1; }

  // Compares what was read with the manifest's digests. True: all of it is good.
  bool take(const Manifest& manifest, const Digested& done);
  // The result: one Difference if it cannot be read and one if it differs.
  std::vector<Difference> differences(const Manifest& manifest) const;
};

}  // namespace planesmith
