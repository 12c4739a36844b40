// Writes a checkpoint from another: some shards are rewritten, the other files are linked or copied, the
// index is new. Common to quantize, translate and finish.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "repack/repack_target.h"
#include "rewrite/new_shards.h"

namespace planesmith {

struct RewriteOptions {
  std::string source, target;     // directories
  LinkMode link = LinkMode::sym;  // for unchanged files
  bool force = false;             // rewrite everything, whatever the target holds
  bool recheck = false;           // compare the content of finished files, not only their sizes
  bool dry_run = false;           // check and plan, but neither read weights nor write anything
  bool check_space = true;        // refuse what does not fit into the free space
  BackendChoice backend;          // what quantizes
};

struct Rewrite {
  Json build;                                // what the result depends on, other than the source's shards
  std::map<std::string, std::string> texts;  // small files to write, by name; the index is added
  std::vector<std::string> dropped;          // files that are left out
  std::map<std::string, std::string> taken;  // files from elsewhere: name to path
  const Checkpoint* from = nullptr;          // another checkpoint that tensors are taken from
};

struct RewriteResult {
  struct File {
    std::string name;
    std::uint64_t bytes = 0;
    bool was_there = false;  // from an earlier run
  };
  std::vector<File> files;               // rewritten shards
  std::vector<NamedSize> others;         // linked
  std::vector<std::string> left_out;     // with the reason
  std::vector<std::string> texts;        // names of small files that were written
  std::uint64_t made = 0;                // tensors
  std::uint64_t tensors = 0, bytes = 0;  // of the whole new checkpoint
  std::uint64_t to_write = 0, free = 0;  // bytes; free: at the target
  std::uint64_t memory = 0;              // bytes, for
  int workers = 1;                       // threads
  std::string backend;                   // what quantizes, as it describes itself
};

// Errors: an unusable target; too little free space; any error of reading and writing. Files finished before
// an error or a stop are kept and not written again. Small files are written after the shards, the index
// last.
RewriteResult rewrite(const Context& context, const Checkpoint& checkpoint, NewShards& shards,
                      const Rewrite& what, const RewriteOptions& options);

}  // namespace planesmith
