// The directory of the packs, or one directory for each rank (on machines with several disks).
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace planesmith {

class PackDirs {
 public:
  PackDirs() = default;
  PackDirs(std::string directory);  // for all ranks; empty: none
  PackDirs(const char* directory) : PackDirs(std::string(directory)) {}

  // "DIR", or "0=DIR,1=DIR" for one directory per rank. Errors (usage, naming `option`): a rank that appears
  // twice or has no directory.
  static PackDirs parse(const std::string& text, std::string_view option);

  bool empty() const { return of_all_.empty() && of_rank_.empty(); }
  bool per_rank() const { return !of_rank_.empty(); }
  // Error (usage): no directory is named for this rank.
  const std::string& of(std::uint64_t rank) const;
  std::vector<std::string> all() const;  // in order of ranks, without duplicates
  std::string text() const;              // in the form that parse() reads

 private:
  std::string of_all_;
  std::map<std::uint64_t, std::string> of_rank_;
};

}  // namespace planesmith
