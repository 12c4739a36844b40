// Whether an archive keeps to the directory it is unpacked in.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "chunks/member.h"

namespace planesmith::chunks {

// What is on disk at a path in the directory that is unpacked into, links not followed.
struct DiskEntry {
  enum class Kind { directory, link, other } kind = Kind::other;
  std::string target{};  // of a link
};
using OnDisk = std::function<std::optional<DiskEntry>(const std::string& path)>;

// Errors, by name: members with absolute names or ".." in them, the same name twice, members below something
// that is not a directory, hard links to what is not a file of the archive, symbolic links that lead out of
// the directory or may come to: absolute ones, those that climb above it, those that climb from behind
// another link or a name that is not there, those that lead through a link on disk that does one of these.
// The work is proportional to the names' and links' length, however they refer to one another. on_disk: may
// be empty.
void check_safe(const std::vector<Member>& members, const OnDisk& on_disk);

// The same for one member's own name, as soon as it is known.
void check_safe_name(const Member& member);

// The symbolic links that check_safe would refuse, or that do not end below one of the roots: with what is
// wrong.
std::vector<std::string> links_out(const std::vector<Member>& members, const std::vector<std::string>& roots);

}  // namespace planesmith::chunks
