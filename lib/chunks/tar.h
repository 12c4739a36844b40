// Single tar headers (pax, with the "GNU sparse 1.0" form for files with holes),
// written and read by libarchive.
#pragma once

#include <locale.h>

#include <string>
#include <string_view>

#include "chunks/member.h"

struct archive_entry;

namespace planesmith::chunks {

// Everything before the member's data: extended header, header, sparse map;
// a multiple of 512 bytes. Owner, group and time are 0, so the same member
// gives the same bytes. Uses path, type, mode, size, target, extents.
std::string tar_header(const Member& member);

// The version of the library that writes them; only the same version continues a set.
std::string tar_writer_version();

// The inverse: the member that these bytes describe. Error: anything but exactly one header.
Member parse_tar_header(std::string_view header);

// The member of an entry that libarchive read; needs a Utf8Locale. Drops "." components and slashes at the
// end of the path (an empty path is the directory packed as "."); the caller must check whether the path is
// safe. Error, by name: neither file, directory nor link.
Member member_of(archive_entry* entry);

// libarchive converts names by the C library's character set. While this object lives that is UTF-8 in this
// thread, independent of the user's locale.
class Utf8Locale {
 public:
  Utf8Locale();
  Utf8Locale(const Utf8Locale&) = delete;
  ~Utf8Locale();

 private:
  locale_t utf8_{}, before_{};
};

}  // namespace planesmith::chunks
