// What size-tiers found, in words and as JSON.
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
  std::optional<Usage> usage;  // none: snapshots were given
  std::optional<PoolHistory> history;
  std::optional<KnownModel> model;  // none: no sizes in bytes
  std::uint64_t world = 1;
  std::vector<std::uint64_t> slots;  // of the curve's rows
  std::vector<Replay> replays;
  double token_rate = 50;  // tokens a second, one tick each: for the bus
  std::vector<ModeAdvice> advice;
  std::vector<std::string> heat;  // files written
};

// Shares of hits at which sizes are told.
inline constexpr double kReach[] = {0.50, 0.80, 0.90, 0.95, 0.99};

Json to_json(const TierReport& report);
std::string to_text(const TierReport& report);

}  // namespace planesmith
