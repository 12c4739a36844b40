#include "chunks/chunk_set.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <set>

#include "base/error.h"
#include "base/file.h"

namespace planesmith::chunks {
namespace {

std::string only_name_in(const std::string& dir, const Context& context) {
  std::set<std::string> names;
  const std::vector<std::string> files = list_dir(context.os, dir);
  for (const std::string& file : files)
    if (const auto part = parse_part_name(file)) names.insert(part->name);
  for (const std::string& file : files) {
    const std::string name = set_of_manifest(file);
    if (!name.empty() && !names.contains(name) && is_chunk_manifest(context, join(dir, file)))
      names.insert(name);
  }
  if (names.empty()) throw Error(dir, "holds no chunks (NAME.tar.zst.part.000 ..., manifest.NAME.json)");
  if (names.size() > 1)
    throw Error(
        ErrorCode::usage, dir,
        fmt::format("holds several sets of chunks; choose one with --name: {}", fmt::join(names, ", ")));
  return *names.begin();
}

std::vector<std::string> parts_in(const std::string& dir, const std::string& name, const Context& context) {
  std::vector<std::string> files;
  for (const std::string& file : list_dir(context.os, dir))
    if (const auto part = parse_part_name(file); part && part->name == name) files.push_back(join(dir, file));
  return files;
}

// Parts named in two ways are two sets, and without a manifest the right one is unknown.
void require_one_stem(const std::vector<std::string>& files) {
  for (const std::string& file : files)
    if (parse_part_name(name_of(file))->stem != parse_part_name(name_of(files[0]))->stem)
      throw Error(file,
                  fmt::format("is numbered in another way than {}, so there are two sets of this name; give "
                              "the files instead of the directory, or move one set elsewhere",
                              name_of(files[0])));
}

}  // namespace

std::string find_manifest(Os& os, const std::string& dir, const std::string& name) {
  for (const std::string& file : {manifest_name(name), old_manifest_name(name)})
    if (exists(os, join(dir, file))) return join(dir, file);
  return "";
}

std::vector<std::string> files_of_set(Os& os, const std::string& dir, const std::string& name) {
  // Parts, and what earlier versions left beside them when they were interrupted.
  const auto numbered = [&](const std::string& file, const std::string& middle) {
    const std::string prefix = name + middle;
    std::string_view rest = file;
    if (!rest.starts_with(prefix)) return false;
    rest.remove_prefix(prefix.size());
    if (rest.ends_with(".tmp")) rest.remove_suffix(4);
    return !rest.empty() && rest.find_first_not_of("0123456789") == rest.npos;
  };
  std::vector<std::string> found;
  for (const std::string& file : list_dir(os, dir))
    if (file == manifest_name(name) || file == old_manifest_name(name) || file == digest_list_name(name) ||
        numbered(file, ".tar.zst.part.") || numbered(file, ".tar.zst.record."))
      found.push_back(file);
  return found;
}

ChunkSet find_chunks(const std::vector<std::string>& inputs, const std::string& name,
                     const std::string& manifest, const Context& context) {
  ChunkSet set{.name = name, .manifest = {}, .manifest_path = manifest, .parts = {}, .extra = {}};
  std::vector<std::string> files;
  std::string dir;
  if (inputs.size() == 1 && S_ISDIR(status(context.os, inputs[0]).st_mode)) {
    dir = inputs[0];
    if (set.name.empty()) set.name = only_name_in(dir, context);
    files = parts_in(dir, set.name, context);
  } else {
    files = inputs;
    dir = parent_of(files.at(0));
    if (const auto part = parse_part_name(name_of(files[0])); part && set.name.empty()) set.name = part->name;
  }
  if (set.manifest_path.empty() && !set.name.empty())
    set.manifest_path = find_manifest(context.os, dir, set.name);
  if (set.manifest_path.empty()) {
    if (files.empty()) throw Error(dir, fmt::format("holds no parts of '{}'", set.name));
    if (files != inputs) require_one_stem(files);
    sort_parts(files);
    check_for_gaps(files);
    set.parts = std::move(files);
    return set;
  }
  set.manifest = read_chunk_manifest(context, set.manifest_path);
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
                "is missing; without it only `cat PARTS | zstd -t` can tell whether the parts are whole");
  return set;
}

}  // namespace planesmith::chunks
