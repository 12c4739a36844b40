// The directory that packs lie in, or one for each rank, as people with several disks have them.
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
  PackDirs(std::string directory);  // of all ranks; empty: none
  PackDirs(const char* directory) : PackDirs(std::string(directory)) {}

  // "DIR", or "0=DIR,1=DIR" for each rank. Error (usage): a rank twice, or a directory without a name.
  static PackDirs parse(const std::string& text, std::string_view option);

  bool empty() const { return of_all_.empty() && of_rank_.empty(); }
  bool per_rank() const { return !of_rank_.empty(); }
  // Error (usage): no directory is named for this rank.
  const std::string& of(std::uint64_t rank) const;
  std::vector<std::string> all() const;  // each once, by rank
  std::string text() const;              // as parse() takes it

 private:
  std::string of_all_;
  std::map<std::uint64_t, std::string> of_rank_;
};

}  // namespace planesmith
