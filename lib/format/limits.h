// Upper limits of a model: far above existing models, and low enough that products of a few of them fit into
// 64 bits. One set for config.json, manifests, profiles and flags.
#pragma once

#include <cstdint>

namespace planesmith::format {

inline constexpr std::uint64_t kMostLayers = 1 << 16, kMostExperts = 1 << 16;
inline constexpr std::uint64_t kMostWidth = 1 << 24;  // hidden_size, moe_intermediate_size
inline constexpr std::uint64_t kMostWorld = 4096;     // tensor-parallel ranks
inline constexpr std::uint64_t kMostDrafts = 64;      // DSpark blocks

}  // namespace planesmith::format
