// Compares caches and packs with the checkpoint they were made from, byte for byte: converts experts again.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/context.h"
#include "checkpoint/model.h"
#include "store/probe.h"

namespace planesmith {

struct SampleRequest {
  std::optional<std::uint64_t> count;  // (layer, expert) pairs; none: all
  std::uint64_t seed = 0;
};

struct ContentDifference {
  std::string path;          // part file or pack
  std::uint64_t offset = 0;  // of the first byte that differs
  std::uint64_t layer = 0, expert = 0, rank = 0;
  std::string section;             // "planes13", ...; "padding": between slot and stride of a pack
  std::string tensor;              // of the checkpoint; empty: padding
  std::uint64_t row = 0, col = 0;  // in that tensor
  std::string found, expected;
  std::string repair;  // command that builds the layer again or zeroes the padding
};

struct SampleReport {
  std::uint64_t experts = 0;  // (layer, expert) pairs that were compared
  std::uint64_t bytes = 0;    // compared
  std::uint64_t seed = 0;
  std::uint64_t differing = 0;  // experts whose weights or scales differ
  // All experts differ and the source of the cache is not recorded, so there is nothing to repair.
  bool other_checkpoint = false;
  std::vector<ContentDifference> differences;  // the first of each layer in each file
};

// Compares every rank of the verdict's boot; skips layers and packs that miss. Errors: the checkpoint has a
// NaN or an infinity; context.memory is too small for one expert.
SampleReport compare_with_checkpoint(const Context& context, const Store& store, const BootVerdict& verdict,
                                     const Checkpoint& checkpoint, const Model& model,
                                     const SampleRequest& request);

}  // namespace planesmith
