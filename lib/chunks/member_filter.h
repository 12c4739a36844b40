// --include and --exclude.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace planesmith::chunks {

// A glob ('*' and '?' match '/' too) matches a member by its path or, where the glob has no '/', by its last
// component; what matches a directory matches all that is in it.
class MemberFilter {
 public:
  MemberFilter(std::vector<std::string> include, std::vector<std::string> exclude)
      : include_(std::move(include)), exclude_(std::move(exclude)) {}

  bool everything() const { return include_.empty() && exclude_.empty(); }
  // Included (or nothing is) and not excluded.
  bool wants(const std::string& path) const;

 private:
  std::vector<std::string> include_, exclude_;
};

}  // namespace planesmith::chunks
