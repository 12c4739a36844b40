// The source that a cache, a pack and each layer's record name (FORMAT.md section 10).
#pragma once

#include <string>

#include "base/context.h"
#include "checkpoint/model.h"

namespace planesmith {

// Hex SHA-256 over the shards that hold routed experts of transformer layers: the size, the header and 64
// blocks of the data of each. Reads 256 KiB of a shard besides the header. config.json, tokenizers and shards
// without routed experts, such as a drafter's, do not count.
std::string source_fingerprint(const Context& context, const Checkpoint& checkpoint, const Model& model);

// "1a2b3c4d5e6f7081...", for messages; "not recorded" where empty.
std::string short_fingerprint(const std::string& fingerprint);

}  // namespace planesmith
