// How far an interrupted verification got: which blocks of which files were found good.
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

  // `key` tells one verification from every other. Nothing is kept where the user's cache lies below `root`.
  VerifyRecord(const Context& context, const std::string& root, std::string key);

  bool kept() const { return kept_; }

  // What was found good of the file, if it still is the same file; the whole of it counts as block 0 where it
  // was digested as a whole.
  Runs good(const std::string& path, const struct stat& status) const;

  void add(const std::string& path, const struct stat& status, std::size_t first, std::size_t last);
  void save();  // now; add() does it now and then by itself
  void drop();  // the verification is over

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
