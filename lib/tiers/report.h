// The results of size-tiers, as text and JSON.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/json.h"
#include "manifest/known_model.h"
#include "tiers/advice.h"
#include "tiers/curve.h"
#include "tiers/policy.h"
#include "tiers/snapshot.h"

namespace planesmith {

struct TierReport {
  std::vector<std::string> traces;
  std::optional<Usage> usage;  // none: the input was snapshots
  std::optional<PoolHistory> history;
  std::optional<KnownModel> model;  // none: sizes in bytes are left out
  std::uint64_t world = 1;
  std::vector<std::uint64_t> slots;  // pool sizes in the table
  std::vector<Replay> replays;
  double token_rate = 50;  // tokens per second, one tick each; for the load on the bus
  std::vector<ModeAdvice> advice;
  std::vector<std::string> heat;  // heat files that were written
};

// Hit rates for which the needed sizes are reported.
inline constexpr double kReach[] = {0.50, 0.80, 0.90, 0.95, 0.99};

Json to_json(const TierReport& report);
std::string to_text(const TierReport& report);

}  // namespace planesmith
