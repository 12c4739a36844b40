// Lints a checkpoint before it is converted or served:
// what people found out the hard way, as checks that run in seconds.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/context.h"
#include "base/json.h"
#include "manifest/profile.h"

namespace planesmith {

enum class Severity { note, warning, error };
std::string_view name(Severity severity);

struct Finding {
  std::string code;  // stable, for scripts: "index.total-size"
  Severity severity;
  std::string what;  // what was found
  std::string why;   // why it matters, one line
  std::string fix;   // what to do
};

struct AuditRequest {
  std::string checkpoint;
  std::optional<std::string> against{};  // the checkpoint this one was made from
  std::optional<Profile> profile{};      // what the model should be
  std::uint64_t world = 1;               // tensor-parallel ranks it is to be served with
  std::string against_cache{};  // root of a planes cache, or a store, that it is to be served from; or empty
};

struct AuditReport {
  std::vector<Finding> findings;  // errors first, then in the order of the checks
  std::uint64_t tensors = 0, shards = 0;
  std::uint64_t compared = 0;  // tensors found identical to those of `against`
  bool failed() const;         // an error among them
};

// Reads headers, configuration and scales, a sample of weights, and with `against` every tensor that is not a
// routed expert's weight. Damage is a finding; only a directory that cannot be read at all is an Error.
AuditReport audit(const Context& context, const AuditRequest& request);

std::string to_text(const AuditReport& report);
Json to_json(const AuditReport& report);

}  // namespace planesmith
