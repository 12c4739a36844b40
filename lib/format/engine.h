// Which files a configuration of the engine opens, and which shapes it has kernels for (ENGINE.md sections 1
// to 3). Used in both directions: what to build for a mode, and which mode an environment selects.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "format/geometry.h"
#include "format/pack.h"
#include "format/planescache.h"

namespace planesmith::format {

enum class Mode { resident, resident_split, resident_2bit, host, host_split, host_2bit };
inline constexpr Mode kModes[] = {Mode::resident, Mode::resident_split, Mode::resident_2bit,
                                  Mode::host,     Mode::host_split,     Mode::host_2bit};
std::string_view name(Mode mode);        // "resident", "resident-split", ...
std::string_view summary(Mode mode);     // one line of help: where the planes are
std::string mode_names();                // "resident, resident-split, ..."
Mode parse_mode(std::string_view text);  // anything else is a usage Error

// The three switches that decide about files.
struct ModeSwitches {
  bool host = false;   // the 2-bit planes are on the host, the GPU holds a cache of them
  bool fp4 = true;     // the FP4 tier exists
  bool split = false;  // quintal FP4 planes
};
ModeSwitches switches(Mode mode);
Mode mode_of(const ModeSwitches& switches);  // without FP4, split has no effect

Fp4Tier cache_fp4(Mode mode);        // the planes cache that the mode reads
std::vector<Tier> packs(Mode mode);  // the packs that it opens if it has a store
bool opens(Mode mode, Tier tier);

// The modes that can be served from a planes cache of this kind (none: no cache)
// and packs of these tiers: first those that use all their packs, then the resident
// ones that use only the cache, both in the order of kModes. A host mode needs all
// its packs. A nibble cache also serves modes without FP4, which read four parts.
std::vector<Mode> modes_served(std::optional<Fp4Tier> cache, const std::vector<Tier>& tiers);

// What the engine does with the files, in a few words. has_cache:
// the engine reads planes caches of the model's family.
std::string cache_use(std::optional<Mode> mode, bool has_cache);
std::string pack_use(std::optional<Mode> mode, Tier tier);

// The K for which the engine loads kernels unless VLLM_MOE_W2_KS says otherwise.
inline constexpr std::uint64_t kDefaultKs[] = {7168, 6144, 4096, 2048, 1024, 512};
// The first engine that has more of them.
inline constexpr std::string_view kNewEngine = "d358bad (2026-08-22)";

struct Kernels {
  std::vector<std::uint64_t> absent;    // needed K that no engine has
  std::vector<std::uint64_t> new_only;  // needed K that only the new engine has, if VLLM_MOE_W2_KS names them
};
// A shape needs kernels for K = H and K = I / W.
Kernels kernels_for(const RankShape& shape, bool split);
// "7168,...,512,768": the VLLM_MOE_W2_KS that this shape needs; empty: the default works.
std::string needed_ks(const RankShape& shape, bool split);
// A warning about a shape, with the worlds that would work; empty: every engine serves it.
std::string kernel_warning(const Geometry& geometry, const RankShape& shape, bool split);

}  // namespace planesmith::format
