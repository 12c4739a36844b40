// What a dry run says besides its plan: identity, directories, free space, what is there, bytes, memory, and
// with --estimate how long it takes.
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
  std::string identity;  // empty: the content id, which is not known before everything is hashed
  std::vector<std::string> directories;  // written to
  std::optional<DiskRates> rates;        // measured
};

std::string outlook_text(const Context& context, const DryRun& run);
Json outlook_json(const DryRun& run);

}  // namespace planesmith
