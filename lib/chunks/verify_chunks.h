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
  // Which digests of the parts to compare; if the manifest lacks one, the other is compared.
  bool xxh3 = true, sha256 = false;
  bool deep = false;  // decompress everything; compare every frame, tar header and block of a member
};

struct Finding {
  std::string part;                     // file name of a part, or empty
  std::string member;                   // path of a member in the archive, or empty
  std::optional<std::uint64_t> offset;  // in the part or member
  std::string what;
};

// All differences, sorted by member, part and offset; empty: none.
// Error (usage): context.memory is too small.
std::vector<Finding> verify_chunks(const ChunkSet& set, const VerifyOptions& options, const Context& context);

}  // namespace planesmith::chunks
