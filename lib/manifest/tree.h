// The entries of a directory tree; links below its root are never followed.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/context.h"
#include "manifest/manifest.h"

namespace planesmith {

struct TreeItem {
  enum class Kind { missing, file, directory, link, other, behind_link } kind = Kind::missing;
  std::string path;         // relative to the root
  struct stat status {};    // of a link: of the link itself
  std::string link_target;  // link: its target; behind_link: the link in the way
};

// One path below the root. A link in place of a directory of the path is not followed: behind_link.
TreeItem look_at(Os& os, const std::string& root, const std::string& path);

// Whether the target of a link, by its text only, is also in the manifest. Does not look at the disk.
bool has_target(const Manifest& manifest, const FileEntry& link);

// Whether a name is that of a directory or file that version control or a tool keeps for itself (.git, ...).
bool is_of_tools(std::string_view name);

// Files, links and others (never directories) at or below `start`, "." for the root itself; sorted by path.
// Leaves out what version control and tools keep for themselves: is_of_tools(), and .cache/huggingface.
std::vector<TreeItem> walk(const Context& context, const std::string& root, const std::string& start);

}  // namespace planesmith
