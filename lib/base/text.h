// Text that is not ours: from files, names and command lines.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace planesmith {

// Text that came out of a file, made safe for a terminal: control bytes and invalid UTF-8 as \xNN, backslash
// as it is.
std::string printable(std::string_view text);

// Text as one word of a POSIX shell's command line; in quotes only where it needs them.
std::string shell_quoted(std::string_view text);

// Length of the well-formed UTF-8 sequence at the start of text, which is not empty; 0 where there is none.
std::size_t utf8_length(std::string_view text);
bool is_utf8(std::string_view text);

// Whether the text is this many lower-case hexadecimal digits.
bool is_hex(std::string_view text, std::size_t digits);

// Whether the text has a control character (C0, DEL or C1), as text that a terminal or a script gets must
// not.
bool has_control_characters(std::string_view text);

}  // namespace planesmith
