#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "base/error.h"
#include "base/file.h"
#include "chunks/chunk_names.h"
#include "chunks/chunk_set.h"
#include "format/planescache.h"
#include "manifest/tree.h"
#include "upkeep/units.h"

namespace planesmith {
namespace {

constexpr int kDeepest = 32;  // levels of directories

bool is_rank_directory(const std::string& path) {
  return format::is_rank_directory(name_of(path)) && format::is_key(name_of(parent_of(path)));
}

// NAME of NAME.tar.zst.part.000; empty: not a part.
std::string set_of(const std::string& name) {
  const std::size_t at = name.rfind(".tar.zst.part");
  return at == std::string::npos ? "" : name.substr(0, at);
}

// Whether a file with this name may be a manifest of a tree or of chunks.
bool is_manifest_name(const std::string& name) {
  return name == format::kManifestName || !chunks::set_of_manifest(name).empty();
}

Unit pack_unit(const std::string& directory, const std::string& stem) {
  const std::string path = join(directory, stem);
  return {ManifestKind::pack, format::pack_file(path), directory, format::pack_manifest_file(path)};
}

class Search {
 public:
  explicit Search(const Context& context) : context_(context) {}

  void directory(const std::string& path, int depth) {
    context_.check_stop();
    if (is_rank_directory(depth == 0 ? real_path(path) : path)) {
      units_.push_back({ManifestKind::planescache, path, path, join(path, format::kManifestName)});
      return;
    }
    const std::vector<std::string> names = list_dir(context_.os, path);
    std::set<std::string> stems, sets, of_sets;
    for (const std::string& name : names)
      if (const std::string set = set_of(name); !set.empty()) sets.insert(set);
    for (const std::string& set : sets) {
      std::string manifest = chunks::find_manifest(context_.os, path, set);
      if (manifest.empty()) manifest = join(path, chunks::manifest_name(set));
      of_sets.insert(name_of(manifest));
      units_.push_back({ManifestKind::chunks, path, path, manifest});
    }
    for (const std::string& name : names) {
      const TreeItem item = look_at(context_.os, path, name);
      if (item.kind == TreeItem::Kind::directory && depth < kDeepest && !is_of_tools(name))
        directory(join(path, name), depth + 1);
      if (item.kind != TreeItem::Kind::file || of_sets.contains(name)) continue;
      if (const std::string stem = format::stem_of_file(name); !stem.empty())
        stems.insert(stem);
      else if (is_manifest_name(name) && looks_ours(join(path, name)))
        file(join(path, name));
    }
    for (const std::string& stem : stems) units_.push_back(pack_unit(path, stem));
  }

  // Adds the unit of a file that may be a manifest or belong to a pack.
  void file(const std::string& path) {
    const std::string directory = parent_of(path), name = name_of(path);
    if (const std::string stem = format::stem_of_file(name); !stem.empty()) {
      units_.push_back(pack_unit(directory, stem));
    } else if (name == format::kManifestName && is_rank_directory(real_path(directory))) {
      units_.push_back({ManifestKind::planescache, directory, directory, path});
    } else {
      ManifestKind kind = ManifestKind::tree;
      try {
        kind = read_manifest(context_.os, path, context_.memory).kind;
      } catch (const Error&) {  // reported when the unit is verified
      }
      units_.push_back({kind, directory, directory, path});
    }
  }

  std::vector<Unit> take() {
    std::sort(units_.begin(), units_.end(), [](const Unit& a, const Unit& b) {
      return std::pair(a.path, a.manifest_path) < std::pair(b.path, b.manifest_path);
    });
    return std::move(units_);
  }

 private:
  // Other programs have files with such names, too. It looks for two words, since one may be damaged.
  bool looks_ours(const std::string& path) const {
    std::string head(4096, '\0');
    const File file = File::open_read(context_.os, path);
    head.resize(file.read_some({reinterpret_cast<std::uint8_t*>(head.data()), head.size()}, 0));
    return head.find("\"covers\"") != head.npos || head.find("\"planesmith ") != head.npos;
  }

  const Context& context_;
  std::vector<Unit> units_;
};

}  // namespace

std::string cache_root(const Unit& unit) {
  return parent_of(parent_of(parent_of(real_path(unit.path))));
}

std::vector<Unit> find_units(const Context& context, const std::string& path) {
  if (!exists(context.os, path))
    throw Error(path,
                "there is no such file or directory; name a cache's root, a store, a directory of chunks "
                "or a manifest")
        .labelled("not-found");
  Search search(context);
  if (!S_ISDIR(status(context.os, path).st_mode)) {
    search.file(path);
    return search.take();
  }
  search.directory(path == "/" ? path : path.substr(0, path.find_last_not_of('/') + 1), 0);
  std::vector<Unit> units = search.take();
  if (units.empty())
    throw Error(path,
                "holds no planes cache, no pack and no manifest; name the directory that was given to "
                "--out or --store, or the manifest itself")
        .labelled("not-found");
  return units;
}

}  // namespace planesmith
