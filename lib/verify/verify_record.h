// The progress of an interrupted verification: which blocks of which files were found good.
#pragma once

#include <chrono>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "base/context.h"
#include "base/json.h"

namespace planesmith {

class VerifyRecord {
 public:
  using Runs = std::vector<std::pair<std::size_t, std::size_t>>;  // blocks [first, second), ascending

  // `key` identifies the verification. Nothing is kept if the user's cache directory is below `root`.
  VerifyRecord(const Context& context, const std::string& root, std::string key);

  bool kept() const { return kept_; }

  // The blocks found good, if the file has not changed since. A file digested as a whole is block 0.
  Runs good(const std::string& path, const struct stat& status) const;

  void add(const std::string& path, const struct stat& status, std::size_t first, std::size_t last);
  void save();  // now; add() also saves from time to time
  void drop();  // removes the record of a finished verification

 private:
  const Context& context_;
  const std::string key_;
  bool kept_ = false;
  struct Entry {
    Json file;  // file_stamp()
    Runs good;
  };
  std::map<std::string, Entry> files_;  // by path
  std::chrono::steady_clock::time_point next_save_;
};

}  // namespace planesmith
