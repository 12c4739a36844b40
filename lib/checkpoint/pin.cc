#include "checkpoint/pin.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"
#include "base/text.h"

namespace planesmith {
namespace {

// What Python's str.strip() removes, in UTF-8.
constexpr std::string_view kSpaces[] = {
    "\t",           "\n",           "\v",           "\f",           "\r",
    "\x1c",         "\x1d",         "\x1e",         "\x1f",         " ",
    "\xc2\x85",     "\xc2\xa0",     "\xe1\x9a\x80", "\xe2\x80\x80", "\xe2\x80\x81",
    "\xe2\x80\x82", "\xe2\x80\x83", "\xe2\x80\x84", "\xe2\x80\x85", "\xe2\x80\x86",
    "\xe2\x80\x87", "\xe2\x80\x88", "\xe2\x80\x89", "\xe2\x80\x8a", "\xe2\x80\xa8",
    "\xe2\x80\xa9", "\xe2\x80\xaf", "\xe2\x81\x9f", "\xe3\x80\x80"};

}  // namespace

std::string_view stripped(std::string_view text) {
  const auto find = [](auto test) { return std::find_if(std::begin(kSpaces), std::end(kSpaces), test); };
  while (true) {
    const auto* first = find([&](std::string_view space) { return text.starts_with(space); });
    if (first == std::end(kSpaces)) break;
    text.remove_prefix(first->size());
  }
  while (true) {
    const auto* last = find([&](std::string_view space) { return text.ends_with(space); });
    if (last == std::end(kSpaces)) return text;
    text.remove_suffix(last->size());
  }
}

void check_pin(std::string_view id, std::string_view option) {
  const auto refuse = [&](const char* what) {
    throw Error(ErrorCode::usage, "", fmt::format("{} {}", option, what));
  };
  if (id.empty()) refuse("is empty");
  if (!is_utf8(id)) refuse("is not valid UTF-8");
  if (has_control_characters(id)) refuse("has control characters");
  if (stripped(id).size() != id.size())
    refuse("begins or ends with white space; the engine strips it, so this identity would never match");
}

}  // namespace planesmith
