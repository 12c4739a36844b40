// What a dry run reports in addition to its plan: identity, directories, free space, finished layers, bytes,
// memory, and with --estimate the time.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/context.h"
#include "base/json.h"
#include "pipeline/build.h"
#include "pipeline/estimate.h"

namespace planesmith {

struct DryRun {
  Outlook outlook;
  std::string identity;                  // empty: the content id, which is unknown until everything is hashed
  std::vector<std::string> directories;  // written to
  std::optional<DiskRates> rates;        // measured
};

std::string outlook_text(const Context& context, const DryRun& run);
Json outlook_json(const DryRun& run);

}  // namespace planesmith
