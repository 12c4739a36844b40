// What a build will do, known before the first byte is written: which layers, in which order, what is read,
// what is written where and how much memory it takes.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/json.h"
#include "checkpoint/model.h"
#include "format/engine.h"
#include "format/pack.h"
#include "format/planescache.h"

namespace planesmith {

using SectionSet = std::array<bool, format::kSections>;  // indexed by format::Section

struct PlanRequest {
  std::uint64_t world = 1;
  std::optional<std::uint64_t> rank;  // none: all ranks
  format::ZeroMode zero_mode = format::ZeroMode::automatic;
  std::optional<format::Fp4Tier> cache;              // a planes cache with this FP4 tier; none: no cache
  std::vector<format::Tier> tiers;                   // packs
  std::optional<format::Mode> mode = {};             // the engine's mode, for descriptions only
  std::optional<std::vector<std::uint64_t>> layers;  // only these layer indices; none: all
  std::uint64_t drafts = 0;                          // DSpark blocks; the model was found with as many
};

struct Plan {
  PlanRequest request;
  Family family = Family::mxfp4;
  format::Geometry geometry;
  format::RankShape shape;
  std::vector<std::uint64_t> ranks;
  std::vector<const SparseLayer*> layers;  // in the order of their experts in the shards
  std::vector<std::uint64_t> all_layers;   // indices of every sparse layer of the model, sorted
  SectionSet sections{};                   // made for each expert and rank

  // Bytes.
  std::uint64_t read = 0;  // weights and scales of the chosen layers
  struct Written {
    std::string what;             // "planes cache", "base pack", ...
    std::string purpose;          // one line
    std::uint64_t files = 0;      // that end up there, all ranks
    std::uint64_t apparent = 0;   // file lengths
    std::uint64_t allocated = 0;  // without holes
  };
  std::vector<Written> written;
  std::uint64_t allocated() const;
};

// Whether these files are for a split mode.
bool serves_split(const PlanRequest& request);

// Errors (usage): a layer that is not there or has no routed experts, a world that does not divide, a rank
// outside the world, nothing to build; for FP8 a slice that does not divide into scale blocks.
Plan make_plan(const Model& model, const PlanRequest& request);

// Bytes of one expert's tensors in the checkpoint, scales included, all ranks.
std::uint64_t expert_bytes(const Expert& expert);

// For people and for scripts: what is converted, what is left alone, what is written.
std::string describe(const Plan& plan, const Model& model, std::uint64_t peak_memory);
Json plan_json(const Plan& plan, const Model& model, std::uint64_t peak_memory);

}  // namespace planesmith
