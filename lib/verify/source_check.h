// Whether what is to be served together was made from one checkpoint, and from the one at hand (FORMAT.md
// section 10).
#pragma once

#include <string>
#include <vector>

#include "base/json.h"
#include "store/probe.h"

namespace planesmith {

struct SourceCheck {
  std::string expected;  // fingerprint of the checkpoint; without one, the first that is recorded
  bool of_checkpoint = false;
  struct Artifact {
    std::string path, source;  // source: empty where nothing is recorded
  };
  std::vector<Artifact> others;   // made from something else
  std::vector<Artifact> unknown;  // nothing says what they were made from
};

// Caches and packs of this boot. fingerprint: of the checkpoint; empty: none is given.
SourceCheck check_sources(const Store& store, const Boot& boot, const std::string& fingerprint);

// A line for each that was made from something else, and what that means.
std::string to_text(const SourceCheck& check);
Json to_json(const SourceCheck& check);

}  // namespace planesmith
