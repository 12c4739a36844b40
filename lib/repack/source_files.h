// What of a checkpoint's directory a new checkpoint takes over, and how its source is told from another.
#pragma once

#include <string>
#include <vector>

#include "repack/repack_plan.h"

namespace planesmith {

// The regular files of a checkpoint's directory and of those below it. Directories whose names begin with a
// dot are left out: they are not the checkpoint's but a downloader's or a version control's, and what they
// say of the shards' contents would no longer be true.
class SourceFiles {
 public:
  // apart: names of files that are not taken over, relative to the directory.
  SourceFiles(const Context& context, const std::string& directory, std::vector<std::string> apart);
  std::vector<NamedSize> files;       // by name
  std::vector<std::string> left_out;  // with the reason

 private:
  void walk(const std::string& inside, int depth);
  const Context& context_;
  const std::string& directory_;
  std::vector<std::string> apart_;
};

// Changes where the source does: names, sizes and times of all shards.
std::string fingerprint(const Context& context, const Checkpoint& checkpoint);

}  // namespace planesmith
