// The directory that a sink writes into, below a root that a person named. It is opened when it is first
// there and held open from then on: whatever others do to its path meanwhile, files go into the directory
// that was checked.
#pragma once

#include <mutex>
#include <optional>
#include <string>

#include "base/dir.h"

namespace planesmith {

class OutputDir {
 public:
  // root: links in it are followed. below: names under it, none of which may be a link; "." is the root
  // itself.
  OutputDir(Os& os, std::string root, std::string below);

  const std::string& path() const { return path_; }
  const Dir* find() const;  // null: it is not there yet
  const Dir& get() const;   // Error: it is not there
  const Dir& make() const;  // made where it is missing, each new entry durable

 private:
  Os& os_;
  const std::string root_, below_, path_;
  mutable std::mutex mutex_;
  mutable std::optional<Dir> dir_;
};

}  // namespace planesmith
