#include "manifest/make_manifest.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "base/error.h"
#include "base/file.h"
#include "base/file_status.h"
#include "base/temporary.h"
#include "base/text.h"
#include "base/version.h"
#include "manifest/digest_files.h"
#include "manifest/tree.h"

namespace planesmith {
namespace {

// `path` relative to `directory`, "." for the directory itself; empty: not inside. Both are real paths.
std::string inside(const std::string& path, const std::string& directory) {
  if (path == directory) return ".";
  const std::string prefix = directory == "/" ? directory : directory + "/";
  return path.starts_with(prefix) ? path.substr(prefix.size()) : "";
}

FileEntry entry_of(const TreeItem& item, const std::string& root) {
  const std::string full = join(root, item.path);
  if (!is_utf8(item.path)) throw Error(full, "a name that is not UTF-8 cannot be recorded; rename it");
  FileEntry entry{.path = item.path};
  if (item.kind == TreeItem::Kind::link) {
    if (!is_utf8(item.link_target)) throw Error(full, "a link's target that is not UTF-8 cannot be recorded");
    entry.link_target = item.link_target;
  } else if (item.kind == TreeItem::Kind::file) {
    entry.size = static_cast<std::uint64_t>(item.status.st_size);
  } else {
    throw Error(full, "is neither a file nor a directory nor a link and cannot be recorded; move it away");
  }
  return entry;
}

}  // namespace

TreeManifest make_manifest(const Context& context, const std::vector<std::string>& paths,
                           const std::string& out, Hashes hashes) {
  const std::string own_directory = real_path(parent_of(out)), own = join(own_directory, name_of(out));
  std::string root = own_directory;
  std::vector<std::string> real;
  real.reserve(paths.size());
  for (const std::string& path : paths) real.push_back(real_path(path));
  const bool elsewhere = std::any_of(real.begin(), real.end(),
                                     [&](const std::string& path) { return inside(path, root).empty(); });
  if (elsewhere) root = parent_of(real[0]);

  TreeManifest result;
  Manifest& manifest = result.manifest;
  if (elsewhere) result.root = root;
  manifest.tool = version();
  std::map<std::string, TreeItem> items;
  for (const std::string& path : real) {
    const std::string start = inside(path, root);
    if (start.empty())
      throw Error(
          ErrorCode::usage, path,
          fmt::format(
              "is not below {}, which the other paths are relative to; put the manifest (--out) into a "
              "directory above all of them, or make several",
              root));
    manifest.covers.push_back(start);
    for (TreeItem& item : walk(context, root, start))
      if (const std::string full = join(root, item.path); full != own && full != temporary_name(own))
        items.emplace(item.path, std::move(item));
  }
  std::sort(manifest.covers.begin(), manifest.covers.end());
  manifest.covers.erase(std::unique(manifest.covers.begin(), manifest.covers.end()), manifest.covers.end());

  std::vector<FileToDigest> todo;
  std::vector<std::size_t> entry_number;
  for (const auto& [path, item] : items) {
    manifest.files.push_back(entry_of(item, root));
    const FileEntry& entry = manifest.files.back();
    if (entry.link_target) continue;
    FileToDigest file{.path = join(root, path), .size = entry.size, .sha256 = hashes.sha256};
    if (hashes.xxh3) file.ranges = block_ranges(manifest, entry);
    if (hashes.xxh3) file.runs = {{0, file.ranges.size()}};
    todo.push_back(std::move(file));
    entry_number.push_back(manifest.files.size() - 1);
    if (hashes.xxh3) manifest.files.back().blocks.resize(todo.back().ranges.size());
  }
  digest_files(context, "hashing", todo, [&](const Digested& done) {
    if (done.failure) throw *done.failure;
    FileEntry& entry = manifest.files[entry_number[done.file]];
    std::copy(done.blocks.begin(), done.blocks.end(),
              entry.blocks.begin() + static_cast<std::ptrdiff_t>(done.first_block));
    if (!done.sha256.empty()) entry.sha256 = done.sha256;
  });
  for (FileEntry& entry : manifest.files) {
    if (!entry.link_target && hashes.xxh3) entry.xxh3 = combine(entry.blocks);
    if (!unchanged(look_at(context.os, root, entry.path).status, items.at(entry.path).status))
      throw Error(join(root, entry.path),
                  "changed while it was read; wait until its writer has finished, then run this again");
  }
  return result;
}

}  // namespace planesmith
