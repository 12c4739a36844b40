// Repairs what a verification finds damaged, and nothing else.
#pragma once

#include <string>
#include <vector>

#include "quant/backend.h"
#include "upkeep/units.h"

namespace planesmith {

struct RepairRequest {
  std::vector<std::string> paths;    // as for find_units()
  std::string checkpoint;            // to make planes again from; empty: none
  std::vector<std::string> sources;  // to pack parts of chunks again from, as they were packed; may be empty
  bool dry_run = false;
};

struct RepairReport {
  struct Item {
    std::string path;
    std::vector<std::string> found;  // what was wrong
    std::vector<std::string> done;   // what was done, or would be
    std::vector<std::string> left;   // what could not be done, and what that needs
    bool good = false;               // verified after the repair, or good before
  };
  std::vector<Item> items;  // one for each unit
  std::string next;         // where something was repaired, the command that comes next
  bool good() const;
};

// Verifies every unit, repairs what is damaged and verifies it again:
// - meta.json and sidecars are written again from the manifest; a sidecar lists the sound layers;
// - bytes outside a pack's rows are zeroed, a wrong file size is corrected;
// - a manifest in which only the identity is wrong is written again;
// - parts, rows and a lost manifest are made again from the checkpoint if its fingerprint is the recorded
// one;
//   if none is recorded, a sample of the sound experts must be what the checkpoint gives;
// - parts of chunks are packed again from the source.
// Errors: a path that does not exist; a checkpoint that is not the recorded source ("other-source").
RepairReport repair(const Context& context, const RepairRequest& request, Backend& backend);

std::string to_text(const RepairReport& report, bool dry_run);
Json to_json(const RepairReport& report);

}  // namespace planesmith
