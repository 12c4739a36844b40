// The directory that a sink writes into, below a root that the user named. Once it exists it is opened and
// kept open: whatever happens to its path, files go into the directory that was checked.
#pragma once

#include <mutex>
#include <optional>
#include <string>

#include "base/dir.h"

namespace planesmith {

class OutputDir {
 public:
  // root: links in it are followed. below: path under the root, no component of which may be a link; ".": the
  // root itself.
  OutputDir(Os& os, std::string root, std::string below);

  const std::string& path() const { return path_; }
  const Dir* find() const;  // null: it does not exist yet
  const Dir& get() const;   // Error: it does not exist
  const Dir& make() const;  // creates it durably if it is missing

 private:
  Os& os_;
  const std::string root_, below_, path_;
  mutable std::mutex mutex_;
  mutable std::optional<Dir> dir_;
};

}  // namespace planesmith
