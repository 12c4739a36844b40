// What a cache, a pack and each layer's record were made of (docs/FORMAT.md, "Source fingerprint").
#pragma once

#include <string>

#include "base/context.h"
#include "checkpoint/model.h"

namespace planesmith {

// Hex SHA-256 over the content of the shards that hold routed experts of transformer layers: of each its
// size, its header and 64 blocks of its data. Reads 256 KiB of a shard besides the header. config.json,
// tokenizers and shards without routed experts, such as a drafter's, do not enter.
std::string source_fingerprint(const Context& context, const Checkpoint& checkpoint, const Model& model);

// "1a2b3c4d5e6f...", as much as messages show of it.
std::string short_fingerprint(const std::string& fingerprint);

}  // namespace planesmith
