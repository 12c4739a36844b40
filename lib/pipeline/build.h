// From a checkpoint to planes caches and packs: reads,
// converts and writes every expert once, in bounded memory.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/context.h"
#include "checkpoint/model.h"
#include "plan/pack_dirs.h"
#include "plan/plan.h"
#include "quant/backend.h"
#include "sink/record_cache.h"
#include "sink/sink.h"

namespace planesmith {

struct BuildTarget {
  std::string ckpt_id;
  std::string cache_root;  // used if plan.request.cache is set
  PackDirs store;          // directories of the packs, used if plan.request.tiers is not empty
  Trust trust = Trust::record;
  bool check_space = true;
  bool id_by_download = false;  // CacheFacts
  std::string source{};         // fingerprint of the checkpoint; empty: unknown
  // Shared by all that is done to this target, so that the records of finished layers are read once.
  std::shared_ptr<RecordCache> records = std::make_shared<RecordCache>();
};

// How much of the machine a build will use.
struct Workforce {
  int workers = 1;
  std::uint64_t bytes_per_worker = 0;
  std::uint64_t peak_memory = 0;
};
// Error (usage): context.memory is too small for one worker; says how much is needed.
Workforce plan_workforce(const Context& context, const Checkpoint& checkpoint, const Model& model,
                         const Plan& plan, const Backend& backend);

// What a build will find and do.
struct Outlook {
  struct FileSystem {
    std::string directory;               // a directory on it
    std::uint64_t needed = 0, free = 0;  // bytes
  };
  std::vector<FileSystem> file_systems;
  std::uint64_t layers_finished = 0, layers_to_make = 0;
  std::uint64_t to_read = 0, to_write = 0;  // bytes
  std::vector<std::string> remarks;         // messages about existing outputs
};
// Checks the directories that a build writes to; makes nothing. Errors: a directory inside the checkpoint or
// one with files made from another checkpoint; too little free space for what is still missing.
Outlook check_targets(const Context& context, const Checkpoint& checkpoint, const Plan& plan,
                      const BuildTarget& target);

struct BuildReport {
  std::uint64_t converted = 0;       // layers written by this run
  std::uint64_t finished = 0;        // layers that were finished before
  std::uint64_t elsewhere = 0;       // layers left to another run that is writing them
  bool complete = false;             // every layer of the model is there and the manifests are written
  std::vector<std::string> outputs;  // paths of the directories and packs
};
// Sorted layer indices of the plan's layers that are not finished according to their records.
std::vector<std::uint64_t> layers_missing(const Context& context, const Plan& plan, BuildTarget target);

// Builds the missing layers; continues an earlier run. Errors: those of reading, converting and writing; a
// shard that changed meanwhile; stopped. Committed layers stay.
BuildReport build(const Context& context, const Checkpoint& checkpoint, const Model& model, const Plan& plan,
                  const BuildTarget& target, Backend& backend);

}  // namespace planesmith
