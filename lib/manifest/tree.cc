#include "manifest/tree.h"

#include <errno.h>
#include <fmt/format.h>
#include <limits.h>
#include <string.h>

#include <algorithm>
#include <filesystem>

#include "base/error.h"
#include "base/file.h"
#include "base/file_status.h"

namespace planesmith {
namespace {

TreeItem item_at(Os& os, const std::string& root, const std::string& path) {
  TreeItem item;
  item.path = path;
  const std::string full = path == "." ? root : join(root, path);
  if (!lstat_of(os, full, item.status)) {
    if (errno == ENOENT || errno == ENOTDIR) return item;
    throw Error(full, fmt::format("cannot stat: {}", strerror(errno)));
  }
  const mode_t mode = item.status.st_mode;
  using enum TreeItem::Kind;
  item.kind = S_ISREG(mode) ? file : S_ISDIR(mode) ? directory : S_ISLNK(mode) ? link : other;
  if (item.kind == link) item.link_target = read_link(os, full);
  return item;
}

}  // namespace

TreeItem look_at(Os& os, const std::string& root, const std::string& path) {
  for (std::size_t slash = path.find('/'); slash != path.npos; slash = path.find('/', slash + 1)) {
    const TreeItem parent = item_at(os, root, path.substr(0, slash));
    if (parent.kind == TreeItem::Kind::directory) continue;
    TreeItem item;
    item.path = path;
    if (parent.kind == TreeItem::Kind::link) {
      item.kind = TreeItem::Kind::behind_link;
      item.link_target = parent.path;
    }
    return item;
  }
  return item_at(os, root, path);
}

bool has_target(const Manifest& manifest, const FileEntry& link) {
  namespace fs = std::filesystem;
  const std::string to = (fs::path(link.path).parent_path() / *link.link_target).lexically_normal();
  const auto from = [&](const std::string& path) {
    return std::lower_bound(
        manifest.files.begin(), manifest.files.end(), path,
        [](const FileEntry& file, const std::string& bound) { return file.path < bound; });
  };
  const auto file = from(to), inside = from(to + "/");
  return (file != manifest.files.end() && file->path == to) ||
         (inside != manifest.files.end() && inside->path.starts_with(to + "/"));
}

bool is_of_tools(std::string_view name) {
  for (const std::string_view of_tools :
       {".git", ".hg", ".svn", ".jj", ".bzr", "__pycache__", ".ipynb_checkpoints", ".DS_Store", "Thumbs.db",
        "desktop.ini", "lost+found", "@eaDir"})
    if (name == of_tools) return true;
  // What a removed file is called while it is open, on NFS and FUSE; a desktop's bin; what macOS keeps beside
  // a file on other systems' disks.
  for (const std::string_view of_systems : {".nfs0", ".fuse_hidden", ".Trash-", "._"})
    if (name.starts_with(of_systems)) return true;
  return false;
}

std::vector<TreeItem> walk(const Context& context, const std::string& root, const std::string& start) {
  std::vector<TreeItem> found;
  std::vector<std::string> open;
  if (start == "." || look_at(context.os, root, start).kind != TreeItem::Kind::behind_link)
    open.push_back(start);
  while (!open.empty()) {
    context.check_stop();
    const std::string path = std::move(open.back());
    open.pop_back();
    // The root may be a link; links below it are not followed.
    if (path == ".") {
      for (const std::string& name : list_dir(context.os, root)) open.push_back(name);
      continue;
    }
    if (is_of_tools(name_of(path))) continue;
    TreeItem item = item_at(context.os, root, path);
    if (item.kind == TreeItem::Kind::directory) {
      if (path == ".cache/huggingface" || path.ends_with("/.cache/huggingface")) continue;
      for (const std::string& name : list_dir(context.os, join(root, path))) open.push_back(join(path, name));
    } else if (item.kind != TreeItem::Kind::missing) {
      found.push_back(std::move(item));
    }
  }
  std::sort(found.begin(), found.end(), [](const TreeItem& a, const TreeItem& b) { return a.path < b.path; });
  return found;
}

}  // namespace planesmith
