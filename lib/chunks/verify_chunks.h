// Whether parts are what their manifest says.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/context.h"
#include "chunks/chunk_set.h"

namespace planesmith::chunks {

struct VerifyOptions {
  // Which digests of the parts to compare; one that the manifest lacks is replaced by the other.
  bool xxh3 = true, sha256 = false;
  bool deep = false;  // decompress everything; compare every frame, tar header and block of a member
};

struct Finding {
  std::string part;                     // file name, or
  std::string member;                   // path in the archive
  std::optional<std::uint64_t> offset;  // in it
  std::string what;
};

// All differences, in the order of the parts; empty: everything is as it should be.
std::vector<Finding> verify_chunks(const ChunkSet& set, const VerifyOptions& options, const Context& context);

}  // namespace planesmith::chunks
