#include "rewrite/json_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>

#include "base/error.h"
#include "base/json.h"

namespace planesmith {
namespace {

// A member of a JSON object, in text that is known to be well-formed.
struct Member {
  std::size_t begin = std::string::npos, value = 0, end = 0;  // the key's quote, the value, past the value
  bool found() const { return begin != std::string::npos; }
};

std::size_t skip_space(const std::string& text, std::size_t at) {
  return std::min(text.find_first_not_of(" \t\r\n", at), text.size());
}
std::size_t skip_string(const std::string& text, std::size_t at) {
  for (++at; at < text.size() && text[at] != '"'; ++at)
    if (text[at] == '\\') ++at;
  return std::min(at + 1, text.size());
}
std::size_t skip_value(const std::string& text, std::size_t at) {
  int depth = 0;
  while (at < text.size()) {
    const char c = text[at];
    if (c == '"') {
      at = skip_string(text, at);
    } else {
      if (c == '{' || c == '[') ++depth;
      if (c == '}' || c == ']') {
        if (depth == 0) return at;
        --depth;
      }
      if (depth == 0 && c == ',') return at;
      ++at;
    }
    if (depth == 0 && at < text.size() && (text[at] == ',' || text[at] == '}' || text[at] == ']')) return at;
  }
  return at;
}

// A key may be spelled with escapes.
bool is_key(const std::string& text, std::size_t begin, std::size_t end, std::string_view name) {
  return Json::parse(text.substr(begin, end - begin)) == name;
}

// The member of the object whose brace is at `open`. There is one of this name: the parser refuses several.
Member find_member(const std::string& text, std::size_t open, std::string_view name) {
  std::size_t at = skip_space(text, open + 1);
  while (at < text.size() && text[at] == '"') {
    const std::size_t key_end = skip_string(text, at);
    const std::size_t value = skip_space(text, skip_space(text, key_end) + 1);
    std::size_t end = skip_value(text, value);
    const std::size_t comma = end;
    while (end > value && std::isspace(static_cast<unsigned char>(text[end - 1])) != 0) --end;
    if (is_key(text, at, key_end, name)) return {at, value, end};
    if (comma >= text.size() || text[comma] != ',') break;
    at = skip_space(text, comma + 1);
  }
  return {};
}

// Serializes the value with the indentation of the file.
std::string indented(const OrderedJson& value, const std::string& text, std::size_t depth) {
  const std::size_t line = text.find('\n');
  const std::size_t width = line == std::string::npos
                                ? 2
                                : std::min<std::size_t>(text.find_first_not_of(' ', line + 1) - line - 1, 8);
  std::string out = value.dump(static_cast<int>(width), ' ', true);
  const std::string shift(width * depth, ' ');
  for (std::size_t at = 0; (at = out.find('\n', at)) != std::string::npos; at += 1 + shift.size())
    out.insert(at + 1, shift);
  return out;
}

void set_member(std::string& text, std::size_t open, std::string_view name, const OrderedJson& value,
                std::size_t depth) {
  const std::string json = indented(value, text, depth);
  if (const Member there = find_member(text, open, name); there.found()) {
    text.replace(there.value, there.end - there.value, json);
    return;
  }
  const std::size_t close =
      skip_value(text, skip_space(text, open + 1));  // of an empty object: its closing brace
  std::size_t end = open + 1, at = skip_space(text, open + 1);
  bool empty = true;
  while (at < text.size() && text[at] == '"') {
    empty = false;
    end = skip_value(text, skip_space(text, skip_space(text, skip_string(text, at)) + 1));
    if (text[end] != ',') break;
    at = skip_space(text, end + 1);
  }
  if (empty) end = close;
  while (end > open + 1 && std::isspace(static_cast<unsigned char>(text[end - 1])) != 0) --end;
  const std::size_t line = text.find('\n');
  const std::size_t width = line == std::string::npos
                                ? 2
                                : std::min<std::size_t>(text.find_first_not_of(' ', line + 1) - line - 1, 8);
  text.insert(end,
              fmt::format("{}\n{}\"{}\": {}", empty ? "" : ",", std::string(width * depth, ' '), name, json));
}

void drop_member(std::string& text, std::size_t open, std::string_view name) {
  const Member there = find_member(text, open, name);
  if (!there.found()) return;
  std::size_t begin = there.begin, end = there.end;
  if (const std::size_t next = skip_space(text, end); text[next] == ',') {
    end = skip_space(text, next + 1);
  } else {  // the last member: the comma before it is removed
    begin = text.find_last_of(",{", begin - 1);
    if (text[begin] == '{') ++begin;
  }
  text.erase(begin, end - begin);
}

}  // namespace

JsonText::JsonText(std::string text, std::string path, std::uint64_t max_memory)
    : text_(std::move(text)), path_(std::move(path)) {
  if (!parse_json(text_, path_, 64, max_memory).is_object()) throw Error(path_, "is not a JSON object");
}

std::size_t JsonText::holder(Keys keys) const {
  std::size_t open = text_.find('{');
  for (auto key = keys.begin(); key + 1 != keys.end(); ++key) {
    const Member member = find_member(text_, open, *key);
    if (!member.found() || text_[member.value] != '{') return std::string::npos;
    open = member.value;
  }
  return open;
}

OrderedJson JsonText::value(Keys keys) const {
  const std::size_t open = holder(keys);
  if (open == std::string::npos) return nullptr;
  const Member member = find_member(text_, open, *(keys.end() - 1));
  if (!member.found()) return nullptr;
  OrderedJson value =
      OrderedJson::parse(text_.substr(member.value, member.end - member.value), nullptr, false);
  if (value.is_discarded())
    throw Error(path_, fmt::format("\"{}\" holds numbers that are not finite", *(keys.end() - 1)));
  return value;
}

void JsonText::set(Keys keys, const OrderedJson& value) {
  if (const std::size_t open = holder(keys); open != std::string::npos)
    set_member(text_, open, *(keys.end() - 1), value, keys.size());
}

void JsonText::drop(Keys keys) {
  if (const std::size_t open = holder(keys); open != std::string::npos)
    drop_member(text_, open, *(keys.end() - 1));
}

}  // namespace planesmith
