// Sets of chunks among the files of a repository.
#pragma once

#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "hub/source.h"

namespace planesmith::hub {

struct RemoteSet {
  std::string directory{}, name{};  // directory: in the repository; empty: its root
  std::optional<RemoteFile> manifest{};
  std::vector<RemoteFile> parts{};  // in their order

  std::string path() const { return directory.empty() ? name : directory + "/" + name; }
};

// What a name stands for: the set of this path, else the only set that is called so in any directory, else
// the directory of this path; no name: the only set, else everything. Errors (usage): several sets; nothing
// of this name, with what there is; (failed): parts of which one is missing between others, or whose order
// cannot be told.
using Choice = std::variant<RemoteSet, std::vector<RemoteFile>>;
Choice choose(const std::vector<RemoteFile>& files, std::string name, const std::string& source);

}  // namespace planesmith::hub
