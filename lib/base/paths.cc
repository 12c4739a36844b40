#include "base/paths.h"

#include <sys/auxv.h>

#include "base/error.h"
#include "base/file.h"

namespace planesmith {

std::string nearest_existing(Os& os, std::string path) {
  while (!exists(os, path)) path = parent_of(path);
  return path;
}

std::string resolved(Os& os, const std::string& path) {
  if (exists(os, path)) return real_path(path);
  std::string name = name_of(path);
  if (name.empty()) return resolved(os, parent_of(path));  // a trailing slash
  return join(resolved(os, parent_of(path)), name);
}

bool is_inside(std::string_view path, std::string_view directory) {
  return path.starts_with(directory) &&
         (path.size() == directory.size() || directory == "/" || path[directory.size()] == '/');
}

std::string program_path() {
  try {
    return real_path("/proc/self/exe");
  } catch (const Error&) {
    // No /proc, as in a bare chroot.
    const auto* const started_by = reinterpret_cast<const char*>(::getauxval(AT_EXECFN));
    if (started_by == nullptr) throw;
    return real_path(started_by);
  }
}

}  // namespace planesmith
