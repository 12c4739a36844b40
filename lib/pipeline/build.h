// From a checkpoint to planes caches and packs, every expert read once: read -> convert -> write, bounded in
// memory.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/context.h"
#include "checkpoint/model.h"
#include "plan/pack_dirs.h"
#include "plan/plan.h"
#include "quant/backend.h"
#include "sink/sink.h"

namespace planesmith {

struct BuildTarget {
  std::string ckpt_id;
  std::string cache_root;  // where plan.request.cache is set
  PackDirs store;          // where the packs go, where plan.request.tiers is not empty
  Trust trust = Trust::record;
  bool check_space = true;
  bool id_by_download = false;  // CacheFacts
  std::string source{};         // fingerprint of the checkpoint; empty: not known
};

// How much of the machine a build will use.
struct Workforce {
  int workers = 1;
  std::uint64_t bytes_per_worker = 0;
  std::uint64_t peak_memory = 0;
};
// Errors (usage): context.memory does not suffice for one worker; says how much does.
Workforce plan_workforce(const Context& context, const Checkpoint& checkpoint, const Model& model,
                         const Plan& plan, const Backend& backend);

// What a build will find and do.
struct Outlook {
  struct FileSystem {
    std::string directory;  // on it
    std::uint64_t needed = 0, free = 0;
  };
  std::vector<FileSystem> file_systems;
  std::uint64_t layers_finished = 0, layers_to_make = 0;
  std::uint64_t to_read = 0, to_write = 0;  // bytes
  std::vector<std::string> remarks;         // what is to be said of what is there already
};
// The directories that a build writes to: refused inside the checkpoint, where they hold what was made from
// another checkpoint, and where free space does not suffice for what is still missing. Makes nothing.
Outlook check_targets(const Context& context, const Checkpoint& checkpoint, const Plan& plan,
                      const BuildTarget& target);

struct BuildReport {
  std::uint64_t converted = 0;       // layers written by this run
  std::uint64_t finished = 0;        // found finished already
  std::uint64_t elsewhere = 0;       // left to another run that is writing them
  bool complete = false;             // every layer of the model is there and the manifests are written
  std::vector<std::string> outputs;  // paths of the directories and packs
};
// Layers of the plan that are not finished now, by their records; sorted indices.
std::vector<std::uint64_t> layers_missing(const Context& context, const Plan& plan, BuildTarget target);

BuildReport build(const Context& context, const Checkpoint& checkpoint, const Model& model, const Plan& plan,
                  const BuildTarget& target, Backend& backend);

}  // namespace planesmith
