// Single tar headers (pax, with the "GNU sparse 1.0" form for files with holes), written and read by
// libarchive.
#pragma once

#include <locale.h>

#include <string>
#include <string_view>

#include "chunks/member.h"

struct archive_entry;

namespace planesmith::chunks {

// All that comes before the member's data: extended header, header, sparse map; a multiple of 512 bytes.
// Owner and group are 0, the time is 0: the same member gives the same bytes. Uses path, type, mode, size,
// target, extents.
std::string tar_header(const Member& member);

// What writes them: a set is continued by the same only.
std::string tar_writer_version();

// The other way round: what these bytes say about the member. Errors: anything but exactly one header.
Member parse_tar_header(std::string_view header);

// An entry as libarchive read it, under a Utf8Locale. "." components and slashes at the end of the path are
// dropped (an empty path is the directory packed as "."); whether the path may be used is for the caller to
// ask. Errors: what is neither file, directory nor link, by name.
Member member_of(archive_entry* entry);

// libarchive takes names through the C library's character set. While this lives it is UTF-8 in this thread,
// whatever the user's locale.
class Utf8Locale {
 public:
  Utf8Locale();
  Utf8Locale(const Utf8Locale&) = delete;
  ~Utf8Locale();

 private:
  locale_t utf8_{}, before_{};
};

}  // namespace planesmith::chunks
