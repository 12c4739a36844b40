// Whether an archive stays inside the directory that it is unpacked into.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "chunks/member.h"

namespace planesmith::chunks {

// What is on disk at a path in the target directory, links not followed.
struct DiskEntry {
  enum class Kind { directory, link, other } kind = Kind::other;
  std::string target{};  // of a link
};
using OnDisk = std::function<std::optional<DiskEntry>(const std::string& path)>;

// Errors, by name: members with absolute names or ".." in them; a name that appears twice;
// members below something that is not a directory; hard links to something that is not a file
// of the archive; symbolic links that lead out of the directory or may later do so: absolute
// ones, those with ".." above it, those with ".." after another link or a missing name, those
// that lead through a link on disk that does one of these. The work is proportional to the
// length of names and links, however they refer to one another. on_disk: may be empty.
void check_safe(const std::vector<Member>& members, const OnDisk& on_disk);

// The same for one member's own name, as soon as it is known.
void check_safe_name(const Member& member);

// The symbolic links that check_safe() would refuse, or that do not end in one of the roots:
// "path -> target".
std::vector<std::string> links_out(const std::vector<Member>& members, const std::vector<std::string>& roots);

}  // namespace planesmith::chunks
