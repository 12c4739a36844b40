// Whether an archive keeps to the directory it is unpacked in.
#pragma once

#include <string>
#include <vector>

#include "chunks/member.h"

namespace planesmith::chunks {

// Errors, by name: members with absolute names or ".." in them, the same name twice, members below something
// that is not a directory, hard links to what is not a file of the archive, symbolic links that lead out of
// the directory (absolute, or by "..", also by way of other links of the archive).
void check_safe(const std::vector<Member>& members);

// The same for one member's own name, as soon as it is known.
void check_safe_name(const Member& member);

}  // namespace planesmith::chunks
