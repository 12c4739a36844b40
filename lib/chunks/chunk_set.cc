#include "chunks/chunk_set.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "base/error.h"
#include "base/file.h"
#include "base/json.h"

namespace planesmith::chunks {
namespace {

constexpr std::string_view kPart = ".tar.zst.part.", kManifest = ".manifest.json";

// "NAME.tar.zst.part.007" or "NAME.tar.zst.part.aa" -> "NAME"; empty for any other file.
std::string set_name(const std::string& file) {
  const std::size_t at = file.rfind(kPart);
  if (at == file.npos || at == 0) return "";
  const std::string_view suffix = std::string_view(file).substr(at + kPart.size());
  const auto only = [&](std::string_view allowed) {
    return suffix.find_first_not_of(allowed) == suffix.npos;
  };
  if (suffix.empty() || !(only("0123456789") || only("abcdefghijklmnopqrstuvwxyz"))) return "";
  return suffix == "tmp" ? "" : file.substr(0, at);
}

bool is_chunk_manifest(const Context& context, const std::string& path) {
  try {
    const Json json = read_json(context.os, path);
    return json.is_object() && json.contains("kind") && json.at("kind") == "chunks";
  } catch (const Error&) {
    return false;
  }
}

std::string only_name_in(const std::string& dir, const Context& context) {
  std::set<std::string> names;
  const std::vector<std::string> files = list_dir(context.os, dir);
  for (const std::string& file : files)
    if (const std::string name = set_name(file); !name.empty()) names.insert(name);
  for (const std::string& file : files)
    if (file.ends_with(kManifest)) {
      const std::string name = file.substr(0, file.size() - kManifest.size());
      if (!names.contains(name) && is_chunk_manifest(context, join(dir, file))) names.insert(name);
    }
  if (names.empty()) throw Error(dir, "holds no chunks (NAME.tar.zst.part.000 ..., NAME.manifest.json)");
  if (names.size() > 1) {
    std::string all;
    for (const std::string& name : names) all += (all.empty() ? "" : ", ") + name;
    throw Error(ErrorCode::usage, dir,
                fmt::format("holds several sets of chunks; choose one with --name: {}", all));
  }
  return *names.begin();
}

std::size_t suffix_begin(const std::string& path) {
  std::size_t at = path.size();
  const auto digit = [&](std::size_t i) { return path[i] >= '0' && path[i] <= '9'; };
  const auto letter = [&](std::size_t i) { return path[i] >= 'a' && path[i] <= 'z'; };
  if (at == 0 || !(digit(at - 1) || letter(at - 1))) return at;
  const bool digits = digit(at - 1);
  while (at > 0 && (digits ? digit(at - 1) : letter(at - 1))) --at;
  return at;
}

// The suffix as a number, base 10 or 26: neighbours differ by 1. Long suffixes wrap around, which serves as
// well.
std::uint64_t suffix_value(std::string_view suffix) {
  std::uint64_t value = 0;
  for (const char c : suffix)
    value =
        c <= '9' ? value * 10 + static_cast<unsigned>(c - '0') : value * 26 + static_cast<unsigned>(c - 'a');
  return value;
}

// Without a manifest only the numbers can tell that a part is missing.
void check_for_gaps(const std::vector<std::string>& parts) {
  for (std::size_t i = 1; i < parts.size(); ++i) {
    const std::string &a = parts[i - 1], &b = parts[i];
    const std::string x = name_of(a), y = name_of(b);
    const std::size_t begin = suffix_begin(y);
    if (x == y) throw Error(b, "a part of this name is given twice");
    if (x.size() != y.size() || x.compare(0, begin, y, 0, begin) != 0) continue;
    if (suffix_value(y.substr(begin)) - suffix_value(x.substr(begin)) != 1)
      throw Error(b, fmt::format("follows {}; a part between them is missing", a));
  }
}

}  // namespace

void sort_parts(std::vector<std::string>& paths) {
  const auto key = [](const std::string& path) {
    const std::string name = name_of(path);
    const std::size_t begin = suffix_begin(name);
    const std::string_view suffix = std::string_view(name).substr(begin);
    // Leading zeros do not count; then a longer number is a larger one, and equally long ones compare as
    // text.
    const std::size_t significant = std::min(suffix.find_first_not_of('0'), suffix.size());
    return std::tuple(name.substr(0, begin), suffix.size() - significant,
                      std::string(suffix.substr(significant)), path);
  };
  std::sort(paths.begin(), paths.end(),
            [&](const std::string& a, const std::string& b) { return key(a) < key(b); });
}

ChunkSet find_chunks(const std::vector<std::string>& inputs, const std::string& name,
                     const std::string& manifest, const Context& context) {
  ChunkSet set{.name = name, .manifest = {}, .manifest_path = manifest, .parts = {}, .extra = {}};
  std::vector<std::string> files;
  std::string dir;
  if (inputs.size() == 1 && S_ISDIR(status(context.os, inputs[0]).st_mode)) {
    dir = inputs[0];
    if (set.name.empty()) set.name = only_name_in(dir, context);
    for (const std::string& file : list_dir(context.os, dir))
      if (set_name(file) == set.name) files.push_back(join(dir, file));
  } else {
    files = inputs;
    dir = parent_of(files.at(0));
    if (set.name.empty()) set.name = set_name(name_of(files[0]));
  }
  if (set.manifest_path.empty() && !set.name.empty()) {
    set.manifest_path = join(dir, manifest_name(set.name));
    if (!exists(context.os, set.manifest_path)) set.manifest_path.clear();
  }
  if (set.manifest_path.empty()) {
    if (files.empty()) throw Error(dir, fmt::format("holds no parts of '{}'", set.name));
    sort_parts(files);
    check_for_gaps(files);
    set.parts = std::move(files);
    return set;
  }
  set.manifest = read_chunk_manifest(context.os, set.manifest_path);
  set.name = set.manifest->name;
  std::map<std::string, std::string> by_name;
  for (const std::string& file : files)
    if (!by_name.try_emplace(name_of(file), file).second)
      throw Error(file, "a part of this name is given twice");
  for (const FileEntry& part : set.manifest->parts) {
    const auto found = by_name.extract(part.path);
    set.parts.push_back(found.empty() ? "" : found.mapped());
  }
  for (const auto& [file, path] : by_name) set.extra.push_back(path);
  return set;
}

ChunkSet find_chunks_with_manifest(const std::string& dir, const std::string& name, const Context& context) {
  if (!S_ISDIR(status(context.os, dir).st_mode)) throw Error(dir, "is not a directory");
  ChunkSet set = find_chunks({dir}, name, "", context);
  if (!set.manifest)
    throw Error(join(dir, manifest_name(set.name)),
                "is not there; without it only `cat PARTS | zstd -t` can tell whether the parts are whole");
  return set;
}

}  // namespace planesmith::chunks
