// What will go wrong with a configuration whatever the files hold: values that do not go together, kernels
// that are not loaded, memory that does not suffice (ENGINE.md sections 1 to 3).
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "manifest/known_model.h"
#include "serve/environment.h"
#include "serve/recipe.h"

namespace planesmith {

// What a server would be started with, as far as it was said.
struct Configuration {
  EngineSettings settings;
  Recipe recipe;
};

struct Serve {
  format::Mode mode = format::Mode::resident;
  std::uint64_t world = 1;
  bool has_cache = false, has_store = false;     // directories that the engine is given
  const KnownModel* model = nullptr;             // null: not known
  const Configuration* configuration = nullptr;  // null: our own environment for the mode
  std::optional<std::uint64_t> gpu_bytes;        // memory of one GPU
  std::optional<std::uint64_t> dense_bytes{};    // of everything but routed experts and drafters, all ranks
};
void judge(const Serve& serve, Findings& findings);

// The model as a configuration counts its layers: NUM_LAYERS and DRAFT.
KnownModel as_configured(KnownModel model, const EngineSettings& settings, Findings& findings);

// The pools that our own environment names, in GiB; 0: there is none, or the engine's default stands.
struct Pools {
  double base_cache = 0, delta = 0;
};
// Host modes, in which the engine has no defaults: without a GPU's memory what any card has room for; with it
// shares of it as in the recipes of ENGINE.md section 6, three fifths for the cache of the 2-bit planes (no
// more than all of them take, where the model is known) and an eighth for the FP4 planes.
Pools usual_pools(format::Mode mode, const KnownModel* model, std::uint64_t world,
                  std::optional<std::uint64_t> gpu_bytes);

// Memory of one GPU, in bytes.
struct GpuMemory {
  std::uint64_t planes = 0, pools = 0, dense = 0;
  std::uint64_t total() const { return planes + pools + dense; }
};
// delta_gb, base_cache_gb: as the engine is told them.
GpuMemory gpu_memory(format::Mode mode, const KnownModel& model, std::uint64_t world, double delta_gb,
                     double base_cache_gb, std::uint64_t dense_bytes);

}  // namespace planesmith
