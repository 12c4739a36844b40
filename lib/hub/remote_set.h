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

// What a name refers to: the set of this path, else the only set of this name in any
// directory, else the directory or file of this path; an empty name: the only set, or
// all files if there are no sets. Errors: several sets (usage); nothing of this name,
// with a list of the sets; parts with a gap between them, or in an unknown order.
using Choice = std::variant<RemoteSet, std::vector<RemoteFile>>;
Choice choose(const std::vector<RemoteFile>& files, std::string name, const std::string& source);

}  // namespace planesmith::hub
