#include "base/text.h"

#include <fmt/format.h>

#include <algorithm>

namespace planesmith {

std::size_t utf8_length(std::string_view text) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const auto continued = [&](std::size_t n) {
    if (text.size() < n) return false;
    for (std::size_t i = 1; i < n; ++i)
      if ((byte(i) & 0xC0) != 0x80) return false;
    return true;
  };
  const unsigned char lead = byte(0);
  if (lead < 0x80) return 1;
  if (lead >= 0xC2 && lead <= 0xDF) return continued(2) ? 2 : 0;
  if (lead >= 0xE0 && lead <= 0xEF) {
    if (!continued(3)) return 0;
    const bool overlong = lead == 0xE0 && byte(1) < 0xA0, surrogate = lead == 0xED && byte(1) > 0x9F;
    return overlong || surrogate ? 0 : 3;
  }
  if (lead >= 0xF0 && lead <= 0xF4) {
    if (!continued(4)) return 0;
    const bool overlong = lead == 0xF0 && byte(1) < 0x90, beyond = lead == 0xF4 && byte(1) > 0x8F;
    return overlong || beyond ? 0 : 4;
  }
  return 0;
}

bool is_utf8(std::string_view text) {
  while (!text.empty()) {
    const std::size_t length = utf8_length(text);
    if (length == 0) return false;
    text.remove_prefix(length);
  }
  return true;
}

namespace {

// Whether the sequence of n bytes at the start of text is a control character.
bool is_control(std::string_view text, std::size_t n) {
  const auto lead = static_cast<unsigned char>(text[0]);
  return lead < 0x20 || lead == 0x7F ||
         (n == 2 && lead == 0xC2 && static_cast<unsigned char>(text[1]) < 0xA0);
}

}  // namespace

std::string printable(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  while (!text.empty()) {
    const std::size_t n = utf8_length(text), step = std::max<std::size_t>(n, 1);
    if (n == 0 || is_control(text, n))
      for (std::size_t i = 0; i < step; ++i)
        out += fmt::format("\\x{:02x}", static_cast<unsigned char>(text[i]));
    else
      out += text.substr(0, n);
    text.remove_prefix(step);
  }
  return out;
}

bool has_control_characters(std::string_view text) {
  while (!text.empty()) {
    const std::size_t n = utf8_length(text);
    if (is_control(text, n)) return true;
    text.remove_prefix(std::max<std::size_t>(n, 1));
  }
  return false;
}

bool is_hex(std::string_view text, std::size_t digits) {
  return text.size() == digits && text.find_first_not_of("0123456789abcdef") == text.npos;
}

std::string shell_quoted(std::string_view text) {
  const auto plain = [](unsigned char c) {
    return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') ||
           std::string_view("-_./:,@%+=").find(static_cast<char>(c)) != std::string_view::npos;
  };
  if (!text.empty() && std::all_of(text.begin(), text.end(), plain)) return std::string(text);
  std::string out = "'";
  for (const char c : text) out += c == '\'' ? "'\\''" : std::string(1, c);
  return out + "'";
}

}  // namespace planesmith
