// JSON as the tools read and write it.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "base/os.h"

namespace planesmith {

using Json = nlohmann::json;

// Far more than a config.json, a sidecar or a record needs; a larger file is hostile or something else.
inline constexpr std::uint64_t kMostJsonBytes = 12u << 20, kMostJsonMemory = 24u << 20;

// Parses a whole document. Malformed text, duplicate keys in an object, nesting beyond max_depth and values
// that take more memory than max_memory are Errors that name `path` and the byte. Safe for hostile input.
Json parse_json(std::string_view text, const std::string& path, std::size_t max_depth = 64,
                std::uint64_t max_memory = kMostJsonMemory);

// The same as Python's json module reads it: the last value of a repeated key counts, and NaN, Infinity,
// -Infinity and numbers beyond a double are values, which become strings as they are written. For
// config.json.
Json parse_python_json(std::string_view text, const std::string& path);

// A whole number, not negative. Anything else is an Error without a path: get() would wrap negative numbers,
// and converting a float that is out of range is undefined.
std::uint64_t whole_number(const Json& value);

// read_text + parse_json.
Json read_json(Os& os, const std::string& path, std::uint64_t max_bytes = kMostJsonBytes,
               std::uint64_t max_memory = kMostJsonMemory);
// read_text + parse_python_json.
Json read_python_json(Os& os, const std::string& path, std::uint64_t max_bytes = kMostJsonBytes);

// Compact, sorted keys, ASCII with \uXXXX escapes: what Python's
// json.dumps(sort_keys=True, separators=(",", ":")) prints for integers, strings,
// booleans and null (FORMAT.md section 6). Strings that are not UTF-8 are an Error.
std::string compact(const Json& value);

// The same with separators ", " and ": ", keys in the order given:
// Python's default (meta.json), or sorted for a plain Json object (sidecars).
std::string spaced(const nlohmann::ordered_json& value);
std::string spaced(const Json& value);

// Indented by one space and a newline at the end, sorted keys: manifests and reports.
std::string pretty(const Json& value);

}  // namespace planesmith
