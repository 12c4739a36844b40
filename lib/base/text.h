// Untrusted text: from files, names and command lines.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace planesmith {

// Text made safe for a terminal: control characters and invalid UTF-8 as \xNN, backslashes unchanged.
std::string printable(std::string_view text);

// Text as one word of a POSIX shell's command line; in quotes only where it needs them.
std::string shell_quoted(std::string_view text);

// Length of the well-formed UTF-8 sequence at the start of text, which is not empty; 0: not well-formed.
std::size_t utf8_length(std::string_view text);
bool is_utf8(std::string_view text);

// Whether the text is this many lower-case hexadecimal digits.
bool is_hex(std::string_view text, std::size_t digits);

// Whether the text has a control character (C0, DEL or C1), which must not reach a terminal or a script.
bool has_control_characters(std::string_view text);

}  // namespace planesmith
