#include "hub/remote_set.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "base/error.h"
#include "base/file.h"
#include "chunks/chunk_names.h"

namespace planesmith::hub {
namespace {

constexpr std::size_t kMostNamed = 20;  // sets that a message lists

std::string directory_of(const std::string& path) {
  const std::size_t slash = path.rfind('/');
  return slash == path.npos ? "" : path.substr(0, slash);
}

struct Found {
  RemoteSet set;
  std::vector<std::string> stems{};  // the different names of its parts before the suffix
  std::string odd{};                 // why a file that looks like its part is not one
};

// The sets by directory and name.
std::map<std::pair<std::string, std::string>, Found> find_sets(const std::vector<RemoteFile>& files) {
  std::map<std::pair<std::string, std::string>, Found> sets;
  for (const RemoteFile& file : files) {
    const std::string directory = directory_of(file.path), base = name_of(file.path);
    const auto set_of = [&](const std::string& name) -> Found& {
      Found& found = sets[{directory, name}];
      found.set.directory = directory;
      found.set.name = name;
      return found;
    };
    try {
      if (const auto part = chunks::parse_part_name(base)) {
        Found& found = set_of(part->name);
        found.set.parts.push_back(file);
        if (std::find(found.stems.begin(), found.stems.end(), part->stem) == found.stems.end())
          found.stems.push_back(part->stem);
      } else if (const std::string name = chunks::set_of_manifest(base); !name.empty()) {
        Found& found = set_of(name);
        if (!found.set.manifest || base == chunks::manifest_name(name)) found.set.manifest = file;
      }
    } catch (const Error& error) {
      set_of(base.substr(0, base.find(".tar.zst"))).odd = error.what();
    }
  }
  // A manifest without parts is not a set: packs and directories also have files called manifest.json.
  std::erase_if(sets,
                [](const auto& entry) { return entry.second.set.parts.empty() && entry.second.odd.empty(); });
  return sets;
}

RemoteSet in_order(Found found) {
  RemoteSet& set = found.set;
  if (set.manifest) return set;
  if (!found.odd.empty()) throw Error(found.odd);
  if (found.stems.size() > 1)
    throw Error(set.path(),
                fmt::format("has parts that are named in two ways, {}... and {}..., and no manifest tells "
                            "which ones belong together",
                            found.stems[0], found.stems[1]));
  std::vector<std::string> paths;
  std::map<std::string, RemoteFile> by_path;
  for (RemoteFile& part : set.parts) {
    paths.push_back(part.path);
    by_path[part.path] = std::move(part);
  }
  chunks::sort_parts(paths);
  chunks::check_for_gaps(paths);
  for (std::size_t i = 0; i < paths.size(); ++i) set.parts[i] = by_path.at(paths[i]);
  return set;
}

std::string listed(const std::vector<Found>& sets) {
  std::string out;
  for (std::size_t i = 0; i < std::min(sets.size(), kMostNamed); ++i)
    out += (i == 0 ? "" : ", ") + sets[i].set.path();
  return sets.size() > kMostNamed ? out + ", ..." : out;
}

}  // namespace

Choice choose(const std::vector<RemoteFile>& files, std::string name, const std::string& source) {
  while (name.ends_with('/')) name.pop_back();
  std::vector<Found> all, chosen;
  for (auto& [key, found] : find_sets(files)) all.push_back(std::move(found));
  const auto choose_where = [&](auto matches) {
    if (chosen.empty()) std::copy_if(all.begin(), all.end(), std::back_inserter(chosen), matches);
  };
  if (name.empty()) {
    chosen = all;
  } else {
    choose_where([&](const Found& found) { return found.set.path() == name; });
    choose_where([&](const Found& found) { return found.set.name == name; });
  }
  if (chosen.size() == 1) return in_order(std::move(chosen.front()));
  if (chosen.size() > 1)
    throw Error(ErrorCode::usage, source,
                fmt::format("holds several sets{}; name one of them: {}", name.empty() ? "" : " of this name",
                            listed(chosen)));
  if (name.empty()) return files;
  std::vector<RemoteFile> below;
  for (const RemoteFile& file : files)
    if (file.path == name || file.path.starts_with(name + "/")) below.push_back(file);
  if (below.empty())
    throw Error(source, fmt::format("has no set, directory or file '{}'; {}", name,
                                    all.empty() ? "it holds no sets of chunks" : "its sets: " + listed(all)));
  return below;
}

}  // namespace planesmith::hub
