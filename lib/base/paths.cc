#include "base/paths.h"

#include "base/file.h"

namespace planesmith {

std::string nearest_existing(Os& os, std::string path) {
  while (!exists(os, path)) path = parent_of(path);
  return path;
}

bool is_inside(std::string_view path, std::string_view folder) {
  return path.starts_with(folder) &&
         (path.size() == folder.size() || folder == "/" || path[folder.size()] == '/');
}

}  // namespace planesmith
