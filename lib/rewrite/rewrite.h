// Writes a checkpoint anew from another: some shards in other bytes, the rest linked, with an index of its
// own. What quantize, translate and finish have in common.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "repack/repack_target.h"
#include "rewrite/new_shards.h"

namespace planesmith {

struct RewriteOptions {
  std::string source, target;     // directories
  LinkMode link = LinkMode::sym;  // of the files in which nothing changes
  bool force = false;             // write anew, whatever the target holds
  bool recheck = false;           // compare what is there with what it should be, not only its size
  bool dry_run = false;           // check and plan, but neither read weights nor write anything
  bool check_space = true;        // refuse what does not fit into the free space
  BackendChoice backend;          // what quantizes
};

struct Rewrite {
  Json build;                                // what the result depends on besides the source's shards
  std::map<std::string, std::string> texts;  // small files that are written anew; the index is not among them
  std::vector<std::string> dropped;          // files that are not taken over
  std::map<std::string, std::string> taken;  // files that come from elsewhere: name to path
};

struct RewriteResult {
  struct File {
    std::string name;
    std::uint64_t bytes = 0;
    bool was_there = false;  // from an earlier run
  };
  std::vector<File> files;               // shards in which something changes
  std::vector<NamedSize> others;         // linked
  std::vector<std::string> left_out;     // with the reason
  std::vector<std::string> texts;        // written anew
  std::uint64_t made = 0;                // tensors
  std::uint64_t tensors = 0, bytes = 0;  // of the new checkpoint, all of it
  std::uint64_t to_write = 0, free = 0;  // bytes; what there was room for
  std::uint64_t memory = 0;              // bytes, for
  int workers = 1;                       // threads
  std::string backend;                   // what quantizes, as it describes itself
};

// Errors: a target that cannot be used or has too little room, and all that reading and writing can meet.
// What was finished before an error or a stop is kept and not done again; config.json and the index come
// last.
RewriteResult rewrite(const Context& context, const Checkpoint& checkpoint, NewShards& shards,
                      const Rewrite& what, const RewriteOptions& options);

}  // namespace planesmith
