// When each file of a tree was last found good, by any run of this user: for `verify --since`.
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
  // manifest: its text; another manifest of the same root is another memory.
  VerifiedLately(Os& os, const std::string& root, std::string_view manifest);

  // The file has not changed since it was found good, which was not longer ago than this.
  bool holds(const std::string& path, const struct stat& status, std::chrono::seconds since) const;
  void note(const std::string& path, const struct stat& status, bool good);
  void save() const;

 private:
  Os& os_;
  const std::string key_;
  Json files_;  // by path: the file's stamp and the time
};

}  // namespace planesmith
