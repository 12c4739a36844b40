// Judges a configuration without looking at files: values that contradict each other, kernels that are not
// loaded, too little memory (ENGINE.md sections 1 to 3).
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "manifest/known_model.h"
#include "serve/environment.h"
#include "serve/recipe.h"

namespace planesmith {

// What a server would be started with, as far as it is known.
struct Configuration {
  EngineSettings settings;
  Recipe recipe;
};

struct Serve {
  format::Mode mode = format::Mode::resident;
  std::uint64_t world = 1;
  bool has_cache = false, has_store = false;     // whether the engine is given such directories
  const KnownModel* model = nullptr;             // null: not known
  const Configuration* configuration = nullptr;  // null: our own environment for the mode
  std::optional<std::uint64_t> gpu_bytes;        // memory of one GPU
  std::optional<std::uint64_t> dense_bytes{};    // bytes of all ranks, except routed experts and drafters
};
void judge(const Serve& serve, Findings& findings);

// The model with its layers as NUM_LAYERS and DRAFT of a configuration count them.
KnownModel as_configured(KnownModel model, const EngineSettings& settings, Findings& findings);

// Pool sizes of the environment that we print, in GiB; 0: no such pool, or the engine's default.
struct Pools {
  double base_cache = 0, delta = 0;
};
// Pool sizes for host modes, for which the engine has no usable defaults. Without gpu_bytes: small pools that
// fit any card. With it: three fifths for the cache of 2-bit planes (at most the size of all of them, if the
// model is known) and an eighth for the FP4 planes, as in the recipes of ENGINE.md section 6.
Pools usual_pools(format::Mode mode, const KnownModel* model, std::uint64_t world,
                  std::optional<std::uint64_t> gpu_bytes);

// Memory of one GPU, in bytes.
struct GpuMemory {
  std::uint64_t planes = 0, pools = 0, dense = 0;
  std::uint64_t total() const { return planes + pools + dense; }
};
// delta_gb, base_cache_gb: the values that the engine gets, in GiB.
GpuMemory gpu_memory(format::Mode mode, const KnownModel& model, std::uint64_t world, double delta_gb,
                     double base_cache_gb, std::uint64_t dense_bytes);

}  // namespace planesmith
