// Remembers for `verify --since` when a run of this user last found each file of a tree good.
#pragma once

#include <sys/stat.h>

#include <chrono>
#include <string>
#include <string_view>

#include "base/json.h"
#include "base/os.h"

namespace planesmith {

class VerifiedLately {
 public:
  // manifest: its text; each manifest of the same root has a memory of its own.
  VerifiedLately(Os& os, const std::string& root, std::string_view manifest);

  // Whether the file was found good within `since` and has not changed since then.
  bool holds(const std::string& path, const struct stat& status, std::chrono::seconds since) const;
  void note(const std::string& path, const struct stat& status, bool good);
  void save() const;

 private:
  Os& os_;
  const std::string key_;
  Json files_;  // by path: the file's stamp and the time of the check
};

}  // namespace planesmith
