#include "base/json.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <vector>

#include "base/error.h"
#include "base/file.h"
#include "base/lfs_pointer.h"

namespace planesmith {
namespace {

// Builds a document from parser events, so that depth and duplicate keys are refused before anything grows.
class Builder : public nlohmann::json_sax<Json> {
 public:
  // last_wins: the last value of a repeated key counts; otherwise a repeated key is an Error.
  Builder(const std::string& path, std::size_t max_depth, std::uint64_t max_memory, bool last_wins)
      : path_(path), max_depth_(max_depth), last_wins_(last_wins), memory_left_(max_memory) {}

  Json result;

  bool null() override { return add(nullptr); }
  bool boolean(bool value) override { return add(value); }
  bool number_integer(number_integer_t value) override { return add(value); }
  bool number_unsigned(number_unsigned_t value) override { return add(value); }
  bool number_float(number_float_t value, const string_t&) override { return add(value); }
  bool string(string_t& value) override {
    take(sizeof(std::string) + value.capacity());
    return add(std::move(value));
  }
  bool binary(binary_t&) override { return false; }

  bool start_object(std::size_t) override { return open(Json::object()); }
  bool start_array(std::size_t) override { return open(Json::array()); }
  bool end_object() override { return close(); }
  bool end_array() override { return close(); }

  bool key(string_t& name) override {
    if (!last_wins_ && open_.back()->contains(name))
      throw Error(path_, fmt::format("key '{}' appears twice in one object", name));
    constexpr std::size_t kNode = 80;  // bytes of a node of the map
    take(kNode + name.capacity());
    key_ = std::move(name);
    return true;
  }

  bool parse_error(std::size_t position, const std::string&, const nlohmann::detail::exception& e) override {
    // "[json.exception.parse_error.101] parse error at line 1, column 2: ..."
    std::string_view why = e.what();
    if (const auto colon = why.find(": "); colon != why.npos) why.remove_prefix(colon + 2);
    throw Error(path_, fmt::format("not valid JSON: {}", why)).at(position);
  }

 private:
  void take(std::size_t bytes) {
    if (bytes > memory_left_)
      throw Error(path_,
                  "holds more than such a file can; is it what its name says? A larger --memory allows "
                  "larger files");
    memory_left_ -= bytes;
  }
  template <typename T>
  Json* place(T&& value) {
    take(2 * sizeof(Json));  // an array that grows holds its values twice for a moment
    if (open_.empty()) return &(result = std::forward<T>(value));
    Json& parent = *open_.back();
    if (parent.is_array()) {
      parent.push_back(std::forward<T>(value));
      return &parent.back();
    }
    return &(parent[key_] = std::forward<T>(value));
  }
  template <typename T>
  bool add(T&& value) {
    place(std::forward<T>(value));
    return true;
  }
  bool open(Json container) {
    if (open_.size() >= max_depth_)
      throw Error(path_, fmt::format("JSON nested deeper than {} levels", max_depth_));
    open_.push_back(place(std::move(container)));
    return true;
  }
  bool close() {
    open_.pop_back();
    return true;
  }

  const std::string& path_;
  const std::size_t max_depth_;
  const bool last_wins_;
  std::uint64_t memory_left_;
  std::vector<Json*> open_;
  std::string key_;
};

template <typename Value>
void append_spaced(const Value& value, std::string& out) {
  if (value.is_object()) {
    out += '{';
    for (auto it = value.begin(); it != value.end(); ++it) {
      if (it != value.begin()) out += ", ";
      out += Json(it.key()).dump(-1, ' ', true) + ": ";
      append_spaced(it.value(), out);
    }
    out += '}';
  } else if (value.is_array()) {
    out += '[';
    for (auto it = value.begin(); it != value.end(); ++it) {
      if (it != value.begin()) out += ", ";
      append_spaced(*it, out);
    }
    out += ']';
  } else {
    out += value.dump(-1, ' ', true);
  }
}

template <typename Print>
std::string printed(Print print) {
  try {
    return print();
  } catch (const Json::type_error&) {
    throw Error("a string is not valid UTF-8 and cannot be written as JSON");
  }
}

}  // namespace

namespace {

Json parse(std::string_view text, const std::string& path, std::size_t max_depth, std::uint64_t max_memory,
           bool last_wins) {
  // The parser takes a NUL for the end of the text and passes over a byte order mark; Python's does neither.
  if (const std::size_t nul = text.find('\0'); nul != text.npos)
    throw Error(path, "not valid JSON: a NUL byte").at(nul);
  if (text.starts_with("\xEF\xBB\xBF"))
    throw Error(path, "not valid JSON: begins with a byte order mark").at(0);
  refuse_lfs_pointer(text, path);
  Builder builder(path, max_depth, max_memory, last_wins);
  Json::sax_parse(text, &builder);
  return std::move(builder.result);
}

// Words outside of strings that Python reads as numbers and JSON does not allow.
constexpr std::string_view kPythonNumbers[] = {"-Infinity", "Infinity", "NaN"};

constexpr std::string_view kOfNumbers = "0123456789+-.eE";

// What Python reads here as NaN or as an infinity, too large numbers included; empty: anything else.
std::string_view python_number(std::string_view text) {
  for (const std::string_view each : kPythonNumbers)
    if (text.starts_with(each)) return each;
  const std::string number(text.substr(0, text.find_first_not_of(kOfNumbers)));
  const bool floating = number.find_first_of(".eE") != number.npos;
  if (!floating || std::isfinite(std::strtod(number.c_str(), nullptr))) return {};
  return text.substr(0, number.size());
}

// The text with those in quotes; `added` gets the position of each new quote in the result.
std::string with_words_quoted(std::string_view text, std::vector<std::size_t>& added) {
  std::string out;
  out.reserve(text.size());
  bool in_string = false;
  for (std::size_t i = 0; i < text.size();) {
    // Not within a number: 1e310 ends 0.001e310.
    const bool begins = !in_string && (i == 0 || kOfNumbers.find(text[i - 1]) == kOfNumbers.npos);
    if (const std::string_view word = begins ? python_number(text.substr(i)) : ""; !word.empty()) {
      added.push_back(out.size());
      out.append("\"").append(word);
      added.push_back(out.size());
      out += '"';
      i += word.size();
      continue;
    }
    if (in_string && text[i] == '\\' && i + 1 < text.size())
      out += text[i++];
    else if (text[i] == '"')
      in_string = !in_string;
    out += text[i++];
  }
  return out;
}

}  // namespace

Json parse_json(std::string_view text, const std::string& path, std::size_t max_depth,
                std::uint64_t max_memory) {
  return parse(text, path, max_depth, max_memory, false);
}

Json parse_python_json(std::string_view text, const std::string& path) {
  std::vector<std::size_t> added;
  const std::string quoted = with_words_quoted(text, added);
  try {
    return parse(quoted, path, 64, kMostJsonMemory, true);
  } catch (const Error& error) {
    if (!error.offset() || added.empty()) throw;
    const auto before = std::lower_bound(added.begin(), added.end(), *error.offset()) - added.begin();
    throw Error(path, error.reason()).at(*error.offset() - static_cast<std::uint64_t>(before));
  }
}

std::uint64_t whole_number(const Json& value) {
  if (!value.is_number_unsigned())
    throw Error(
        fmt::format("{} is not a whole number", value.is_number() ? value.dump() : value.type_name()));
  return value.get<std::uint64_t>();
}

Json read_python_json(Os& os, const std::string& path, std::uint64_t max_bytes) {
  return parse_python_json(read_text(os, path, max_bytes), path);
}

Json read_json(Os& os, const std::string& path, std::uint64_t max_bytes, std::uint64_t max_memory) {
  constexpr std::size_t kDepth = 64;
  return parse_json(read_text(os, path, max_bytes), path, kDepth, max_memory);
}

std::string compact(const Json& value) {
  return printed([&] { return value.dump(-1, ' ', true); });
}

std::string spaced(const nlohmann::ordered_json& value) {
  return printed([&] {
    std::string out;
    append_spaced(value, out);
    return out;
  });
}

std::string spaced(const Json& value) {
  return printed([&] {
    std::string out;
    append_spaced(value, out);
    return out;
  });
}

std::string pretty(const Json& value) {
  return printed([&] { return value.dump(1) + "\n"; });
}

}  // namespace planesmith
