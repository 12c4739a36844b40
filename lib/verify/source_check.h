// Checks whether what is served together was made from one checkpoint, and from the given one (FORMAT.md
// section 10).
#pragma once

#include <string>
#include <vector>

#include "base/json.h"
#include "store/probe.h"

namespace planesmith {

struct SourceCheck {
  std::string expected;  // fingerprint of the checkpoint; without one the first recorded
  bool of_checkpoint = false;
  struct Artifact {
    std::string path, source;  // source: empty if not recorded
  };
  std::vector<Artifact> others;   // made from another checkpoint
  std::vector<Artifact> unknown;  // source not recorded
};

// Checks the caches and packs of this boot. fingerprint: of the checkpoint; empty: no checkpoint is given.
SourceCheck check_sources(const Store& store, const Boot& boot, const std::string& fingerprint);

// A line for each artifact that was made from another checkpoint, and what that means.
std::string to_text(const SourceCheck& check);
Json to_json(const SourceCheck& check);

}  // namespace planesmith
