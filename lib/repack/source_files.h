// The files of a checkpoint's directory that a new checkpoint takes over, and the fingerprint of a source.
#pragma once

#include <string>
#include <vector>

#include "repack/repack_plan.h"

namespace planesmith {

// The regular files in and below a checkpoint's directory. Directories whose names begin with a dot are left
// out: they belong to a downloader or to version control, and what they record about the shards would no
// longer be true.
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

// Changes when names, sizes or modification times of the shards change. Not the content fingerprint of
// FORMAT.md section 10.
std::string fingerprint(const Checkpoint& checkpoint);

}  // namespace planesmith
