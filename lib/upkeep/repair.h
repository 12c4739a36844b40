// Doing what a verification advises, and only that.
#pragma once

#include <string>
#include <vector>

#include "quant/backend.h"
#include "upkeep/units.h"

namespace planesmith {

struct RepairRequest {
  std::vector<std::string> paths;  // as for find_units()
  std::string checkpoint;          // empty: none; planes are made again from it
  std::string source;              // empty: none; parts of chunks are made again from it
  bool dry_run = false;
};

struct RepairReport {
  struct Item {
    std::string path;
    std::vector<std::string> found;  // what was wrong
    std::vector<std::string> done;   // what was done, or would be
    std::vector<std::string> left;   // what could not be done, and what it needs
    bool good = false;               // verified after it, or was good before
  };
  std::vector<Item> items;  // of each unit
  bool good() const;
};

// Verifies every unit, repairs what is damaged and verifies that once more:
//   meta.json and sidecars     written again from the manifest; of a pack, sound layers are listed
//   bytes outside a pack's rows zeroed
//   an identity that only the manifest has wrong  the manifest is written again
//   parts, rows, a lost manifest  made again from the checkpoint, where its fingerprint fits; where none is
//                              recorded, a sample of the sound experts has to be what it gives
//   parts of chunks            packed again from the source
// Errors: a path that is not there; wrong use of --checkpoint, "other-source" where it is another one.
RepairReport repair(const Context& context, const RepairRequest& request, Backend& backend);

std::string to_text(const RepairReport& report, bool dry_run);
Json to_json(const RepairReport& report);

}  // namespace planesmith
