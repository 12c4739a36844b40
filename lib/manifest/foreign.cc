#include "manifest/foreign.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <optional>
#include <set>

#include "base/error.h"
#include "base/text.h"

namespace planesmith {
namespace {

void sort_by_path(std::vector<FileEntry>& files, const std::string& path) {
  std::sort(files.begin(), files.end(),
            [](const FileEntry& a, const FileEntry& b) { return a.path < b.path; });
  const auto twice = std::adjacent_find(
      files.begin(), files.end(), [](const FileEntry& a, const FileEntry& b) { return a.path == b.path; });
  if (twice != files.end()) throw Error(path, fmt::format("lists '{}' twice", twice->path));
}

// sha256sum begins a line with a backslash if it escaped the name in it.
std::optional<std::string> unescaped(std::string_view name) {
  std::string out;
  for (std::size_t i = 0; i < name.size(); ++i) {
    if (name[i] != '\\') {
      out += name[i];
      continue;
    }
    if (++i == name.size()) return std::nullopt;
    switch (name[i]) {
      case 'n':
        out += '\n';
        break;
      case 'r':
        out += '\r';
        break;
      case '\\':
        out += '\\';
        break;
      default:
        return std::nullopt;
    }
  }
  return out;
}

// "<digest>  name", "<digest> *name" or "SHA256 (name) = <digest>".
std::optional<FileEntry> parse_sum_line(std::string_view line) {
  const bool escaped = line.starts_with('\\');
  if (escaped) line.remove_prefix(1);
  std::string digest;
  std::string_view name;
  constexpr std::string_view kTag = "SHA256 (", kTagEnd = ") = ";
  if (line.starts_with(kTag)) {
    const std::size_t end = line.rfind(kTagEnd);
    if (end == line.npos) return std::nullopt;
    name = line.substr(kTag.size(), end - kTag.size());
    digest = line.substr(end + kTagEnd.size());
  } else {
    if (line.size() < 67 || line[64] != ' ' || (line[65] != ' ' && line[65] != '*')) return std::nullopt;
    digest = line.substr(0, 64);
    name = line.substr(66);
  }
  std::transform(digest.begin(), digest.end(), digest.begin(),
                 [](unsigned char c) { return std::tolower(c); });
  if (!is_hex(digest, 64)) return std::nullopt;
  const std::optional<std::string> plain = escaped ? unescaped(name) : std::string(name);
  if (!plain) return std::nullopt;
  std::string_view path = *plain;
  while (path.starts_with("./")) path.remove_prefix(2);
  return FileEntry{.path = std::string(path), .size = kUnknownSize, .sha256 = digest};
}

Manifest parse_sums(std::string_view text, const std::string& path) {
  Manifest manifest;
  std::size_t number = 0;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    ++number;
    if (line.ends_with('\r')) line.remove_suffix(1);
    if (line.empty() || line.starts_with('#')) continue;
    const std::optional<FileEntry> entry = parse_sum_line(line);
    if (!entry)
      throw Error(
          path,
          fmt::format("line {} is not what sha256sum writes, and the file is neither a manifest nor a JSON "
                      "listing",
                      number));
    if (!is_inner_path(entry->path))
      throw Error(
          path,
          fmt::format("line {}: '{}' is not a path below a directory; make the list with relative paths",
                      number, entry->path));
    manifest.files.push_back(*entry);
  }
  if (manifest.files.empty()) throw Error(path, "lists no files");
  return manifest;
}

// Such lists do not say what they cover, so this takes the top directories of their files.
std::vector<std::string> tops(const std::vector<FileEntry>& files) {
  std::set<std::string> found;
  for (const FileEntry& file : files) {
    const std::size_t slash = file.path.find('/');
    if (slash == std::string::npos) return {"."};
    found.insert(file.path.substr(0, slash));
  }
  return {found.begin(), found.end()};
}

}  // namespace

std::vector<FileEntry> parse_hf_tree(std::string_view text, const std::string& path, std::uint64_t memory) {
  constexpr std::size_t kDepth = 64;
  const Json listing = parse_json(text, path, kDepth, memory / 5 * 2);
  const auto refuse = [&](std::size_t i, const char* what) {
    throw Error(path, fmt::format("is not a Hugging Face tree listing: entry {} {}", i, what));
  };
  if (!listing.is_array()) throw Error(path, "is not a Hugging Face tree listing: a JSON list was expected");
  std::vector<FileEntry> files;
  for (std::size_t i = 0; i < listing.size(); ++i) {
    const Json& item = listing[i];
    const auto text_of = [&](const Json& object, const char* key) {
      if (!object.is_object() || !object.contains(key) || !object[key].is_string()) refuse(i, "lacks a part");
      return object[key].get<std::string>();
    };
    if (text_of(item, "type") != "file") continue;
    FileEntry entry{.path = text_of(item, "path")};
    if (!is_inner_path(entry.path)) refuse(i, "has a path that leaves the directory");
    if (!item.contains("size") || !item["size"].is_number_unsigned()) refuse(i, "has no size");
    entry.size = item["size"];
    if (item.contains("lfs") && !item["lfs"].is_null()) {
      entry.sha256 = text_of(item["lfs"], "oid");
      if (entry.sha256.starts_with("sha256:")) entry.sha256.erase(0, 7);
      if (!is_hex(entry.sha256, 64)) refuse(i, "has an lfs.oid that is not a SHA-256");
    } else {
      entry.git_sha1 = text_of(item, "oid");
      if (!is_hex(entry.git_sha1, 40)) refuse(i, "has an oid that is not a SHA-1");
    }
    files.push_back(std::move(entry));
  }
  sort_by_path(files, path);
  return files;
}

Manifest read_any_manifest(std::string_view text, const std::string& path, std::uint64_t memory) {
  const std::size_t first = text.find_first_not_of(" \t\r\n");
  if (first != text.npos && text[first] == '{') return parse_manifest(text, path, memory);
  Manifest manifest;
  if (first != text.npos && text[first] == '[') {
    manifest.files = parse_hf_tree(text, path, memory);
    manifest.covers = {"."};
    return manifest;
  }
  manifest = parse_sums(text, path);
  sort_by_path(manifest.files, path);
  manifest.covers = tops(manifest.files);
  return manifest;
}

}  // namespace planesmith
