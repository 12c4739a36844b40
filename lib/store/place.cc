#include "store/place.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"
#include "base/file.h"
#include "base/file_status.h"
#include "base/text.h"

namespace planesmith {
namespace {

bool is_directory(Os& os, const std::string& path) {
  struct stat st {};
  return stat_of(os, path, st) && S_ISDIR(st.st_mode);
}

// The root of the planes cache that contains this directory; empty: it is in no cache.
std::string root_above(const std::string& real) {
  std::string level = real;
  if (format::is_rank_directory(name_of(level))) level = parent_of(level);
  if (format::is_key(name_of(level))) level = parent_of(level);
  return name_of(level) == format::kCacheLevel ? parent_of(level) : "";
}

bool has_cache(Os& os, const std::string& path) {
  return is_directory(os, join(path, format::kCacheLevel));
}

bool has_packs(Os& os, const std::string& path) {
  const std::vector<std::string> names = list_dir(os, path);
  return std::any_of(names.begin(), names.end(),
                     [](const std::string& name) { return !format::stem_of_file(name).empty(); });
}

// The first directory below for which `has` holds; empty: none.
std::string below(Os& os, const std::string& path, bool (*has)(Os&, const std::string&)) {
  for (const std::string& name : list_dir(os, path))
    if (const std::string child = join(path, name); is_directory(os, child) && has(os, child)) return child;
  return "";
}

[[noreturn]] void refuse(const std::string& path, const std::string& what) {
  throw Error(path, what).labelled("not-found");
}

void look_at(Os& os, const std::string& path, const char* kind) {
  if (!exists(os, path)) refuse(path, fmt::format("there is no such directory; give the {}", kind));
  if (!is_directory(os, path)) refuse(path, fmt::format("is not a directory; give the {}", kind));
}

}  // namespace

void refuse_wrong_place(Os& os, const std::string& root, const std::string& directory) {
  if (!root.empty()) {
    look_at(os, root, "root of a planes cache, which was --out of the build");
    if (!has_cache(os, root)) {
      if (const std::string real = root_above(real_path(root)); !real.empty())
        refuse(root, fmt::format("is part of a planes cache; give its root, {}", real));
      if (has_packs(os, root)) refuse(root, "holds packs and no planes cache; give it with --store");
      if (const std::string child = below(os, root, has_cache); !child.empty())
        refuse(root, fmt::format("holds no planes cache itself; give {}", child));
    }
  }
  // A list of directories, "0=/nvme0,1=/nvme1", is checked where it is parsed.
  if (!directory.empty() && directory.find('=') == std::string::npos) {
    look_at(os, directory, "directory of the packs");
    if (!has_packs(os, directory)) {
      if (has_cache(os, directory))
        refuse(directory, "holds a planes cache and no packs; give it with --planescache");
      if (const std::string child = below(os, directory, has_packs); !child.empty())
        refuse(directory, fmt::format("holds no packs itself; give {}", child));
    }
  }
}

std::vector<std::string> remarks_on(const Store& store) {
  std::vector<std::string> out;
  for (const FoundCache& cache : store.caches) {
    if (!cache.problem.empty())
      out.push_back(fmt::format("{}: {}; verify-ckpt-id verify {} tells what to do", cache.path,
                                cache.problem, shell_quoted(cache.path)));
    if (cache.unfinished)
      out.push_back(
          fmt::format("{}: its build has not finished, {} layers are there; run the same command again",
                      cache.path, cache.layers.size()));
  }
  for (const FoundPack& pack : store.packs) {
    if (!pack.problem.empty())
      out.push_back(fmt::format("{}: {}; verify-ckpt-id verify {} tells what to do",
                                format::pack_file(pack.stem), pack.problem,
                                shell_quoted(parent_of(pack.stem))));
    if (pack.unfinished)
      out.push_back(
          fmt::format("{}: its build has not finished, {} layers are there; run the same command again",
                      format::pack_file(pack.stem), pack.sidecar ? pack.sidecar->layer_keys.size() : 0));
  }
  return out;
}

}  // namespace planesmith
