#include "chunks/member_filter.h"

#include <fnmatch.h>

#include <algorithm>

#include "base/file.h"

namespace planesmith::chunks {
namespace {

bool matches_one(const std::vector<std::string>& globs, const std::string& path) {
  return std::any_of(globs.begin(), globs.end(), [&](const std::string& glob) {
    return fnmatch(glob.c_str(), path.c_str(), 0) == 0 ||
           (glob.find('/') == glob.npos && fnmatch(glob.c_str(), name_of(path).c_str(), 0) == 0);
  });
}

bool matches(const std::vector<std::string>& globs, const std::string& path) {
  for (std::size_t slash = path.find('/'); slash != path.npos; slash = path.find('/', slash + 1))
    if (matches_one(globs, path.substr(0, slash))) return true;
  return matches_one(globs, path);
}

}  // namespace

bool MemberFilter::wants(const std::string& path) const {
  return (include_.empty() || matches(include_, path)) && !matches(exclude_, path);
}

}  // namespace planesmith::chunks
