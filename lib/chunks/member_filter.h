// --include and --exclude.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace planesmith::chunks {

// A glob ('*' and '?' match '/' too) matches a member by its path or, if the glob has no '/', by its last
// component; a match of a directory includes everything in it.
class MemberFilter {
 public:
  MemberFilter(std::vector<std::string> include, std::vector<std::string> exclude)
      : include_(std::move(include)), exclude_(std::move(exclude)) {}

  bool everything() const { return include_.empty() && exclude_.empty(); }
  // Whether the path is included (or there is no include list) and not excluded.
  bool wants(const std::string& path) const;

 private:
  std::vector<std::string> include_, exclude_;
};

}  // namespace planesmith::chunks
