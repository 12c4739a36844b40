#include "manifest/profile.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <numeric>

#include "base/error.h"
#include "base/file.h"
#include "base/json.h"
#include "base/paths.h"

namespace planesmith {
namespace {

constexpr std::uint64_t kMostBytes = 1 << 20;  // of a profile's file

// The value of a key of an object; null if absent.
const Json& value_of(const Json& object, const char* key) {
  static const Json null;
  const auto found = object.find(key);
  return found == object.end() ? null : *found;
}

std::uint64_t number(const Json& value, const char* key, std::uint64_t least, std::uint64_t most,
                     const std::string& path) {
  if (!value.is_number_unsigned() || value < least || value > most)
    throw Error(path,
                fmt::format("\"{}\" of a profile must be a whole number from {} to {}", key, least, most));
  return value.get<std::uint64_t>();
}

std::string text(const Json& value, const char* key, const std::string& path) {
  if (!value.is_string()) throw Error(path, fmt::format("\"{}\" of a profile must be a string", key));
  return value.get<std::string>();
}

}  // namespace

std::vector<std::uint64_t> Profile::sparse_layers() const {
  if (!geometry) return {};
  std::vector<std::uint64_t> layers(geometry->layers - first_dense);
  std::iota(layers.begin(), layers.end(), first_dense);
  return layers;
}

Profile parse_profile(std::string_view json, const std::string& path) {
  const Json object = parse_json(json, path);
  if (!object.is_object()) throw Error(path, "is not a profile: not a JSON object");
  Profile profile;
  profile.name = text(value_of(object, "name"), "name", path);
  if (const Json& geometry = value_of(object, "geometry"); geometry.is_object()) {
    const auto of_geometry = [&](const char* key, std::uint64_t most) {
      return number(value_of(geometry, key), key, 1, most, path);
    };
    profile.geometry = {
        of_geometry("layers", format::kMostLayers), of_geometry("experts", format::kMostExperts),
        of_geometry("hidden", format::kMostWidth), of_geometry("intermediate", format::kMostWidth)};
    if (geometry.contains("first_dense"))
      profile.first_dense = number(geometry["first_dense"], "first_dense", 0, profile.geometry->layers, path);
  } else if (!geometry.is_null()) {
    throw Error(path, "\"geometry\" of a profile must be an object");
  }
  if (object.contains("revision")) profile.revision = text(object["revision"], "revision", path);
  if (object.contains("families")) {
    if (!object["families"].is_array()) throw Error(path, "\"families\" of a profile must be a list");
    for (const Json& family : object["families"]) profile.families.push_back(text(family, "families", path));
  }
  if (object.contains("expert_tensors"))
    profile.expert_tensors = number(object["expert_tensors"], "expert_tensors", 1, UINT64_MAX, path);
  if (object.contains("pins")) {
    if (!object["pins"].is_object()) throw Error(path, "\"pins\" of a profile must be an object");
    for (const auto& [key, value] : object["pins"].items()) profile.pins[key] = text(value, "pins", path);
  }
  return profile;
}

std::vector<std::string> profile_directories() {
  std::vector<std::string> directories;
  if (const char* chosen = ::getenv("PLANESMITH_PROFILES"); chosen != nullptr && *chosen != '\0')
    directories.push_back(chosen);
  try {
    directories.push_back(join(parent_of(parent_of(program_path())), "share/planesmith/profiles"));
  } catch (const Error&) {
    // $PLANESMITH_PROFILES can still name the directory.
  }
#ifdef PLANESMITH_SOURCE_PROFILES
  // The source tree counts for programs that run from it, if it is ours or root's and not writable for all.
  struct stat st {};
  if (::stat(PLANESMITH_SOURCE_PROFILES, &st) == 0 && (st.st_uid == 0 || st.st_uid == ::geteuid()) &&
      (st.st_mode & 0002) == 0)
    directories.push_back(PLANESMITH_SOURCE_PROFILES);
#endif
  return directories;
}

namespace {

// All installed profiles; of several with the same file name the first, like find_profile().
std::map<std::string, std::string> installed_profiles(Os& os) {
  std::map<std::string, std::string> path_of;
  for (const std::string& directory : profile_directories()) {
    try {
      if (!exists(os, directory)) continue;
      for (const std::string& file : list_dir(os, directory))
        if (file.ends_with(".json"))
          path_of.try_emplace(file.substr(0, file.size() - 5), join(directory, file));
    } catch (const Error& error) {
      os.note_once(directory, fmt::format("{}; its profiles are ignored", error.what()));
    }
  }
  return path_of;
}

bool is_plain(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' || c == '_' ||
         c == '.' || c == '+';
}

// "160 experts instead of 256", one for each number that differs.
std::vector<std::string> differences(const format::Geometry& found, const format::Geometry& known) {
  std::vector<std::string> out;
  const auto compare = [&](const char* what, std::uint64_t a, std::uint64_t b) {
    if (a != b) out.push_back(fmt::format("{} {} instead of {}", what, a, b));
  };
  compare("layers", found.layers, known.layers);
  compare("experts", found.experts, known.experts);
  compare("hidden", found.hidden, known.hidden);
  compare("intermediate", found.intermediate, known.intermediate);
  return out;
}

}  // namespace

std::vector<std::string> profile_names(Os& os) {
  std::vector<std::string> names;
  for (const auto& [name, path] : installed_profiles(os))
    if (std::all_of(name.begin(), name.end(), is_plain)) names.push_back(name);
  return names;
}

Profile find_profile(Os& os, const std::string& name_or_file) {
  std::vector<std::string> paths, names;
  // Names are never looked up in the current directory, where other users may have put a file.
  const bool is_path = name_or_file.find('/') != std::string::npos || name_or_file.ends_with(".json");
  if (is_path)
    paths.push_back(name_or_file);
  else
    for (const std::string& directory : profile_directories())
      paths.push_back(join(directory, name_or_file + ".json"));
  for (const std::string& path : paths)
    if (exists(os, path) && !S_ISDIR(status(os, path).st_mode))
      return parse_profile(read_text(os, path, kMostBytes), path);

  for (const auto& [name, path] : installed_profiles(os)) names.push_back(name);
  std::string reason =
      names.empty() ? "is not a profile, neither a file nor a name; none are installed"
                    : fmt::format("is not a profile, neither a file nor one of {}", fmt::join(names, ", "));
  if (!is_path && exists(os, name_or_file))
    reason += fmt::format("; ./{} is the file of that name here", name_or_file);
  throw Error(ErrorCode::usage, name_or_file, reason);
}

std::string compare_with_profiles(Os& os, const format::Geometry& geometry) {
  std::vector<std::string> matching, least;
  std::string nearest;
  for (const auto& [name, path] : installed_profiles(os)) {
    Profile profile;
    try {
      profile = parse_profile(read_text(os, path, kMostBytes), path);
    } catch (const Error& error) {  // not asked for by name
      os.note_once(path, fmt::format("{}; this profile is ignored", error.what()));
    }
    if (!profile.geometry) continue;
    const std::vector<std::string> differing = differences(geometry, *profile.geometry);
    if (differing.empty()) matching.push_back(profile.name);
    if (nearest.empty() || differing.size() < least.size()) nearest = profile.name, least = differing;
  }
  if (!matching.empty()) return fmt::format("matches profile {}", fmt::join(matching, ", "));
  constexpr std::size_t kMostDifferences = 2;  // with more it is another model
  if (nearest.empty() || least.size() > kMostDifferences) return "";
  return fmt::format("matches no profile; differs least from {}: {}", nearest, fmt::join(least, ", "));
}

void say_profile(const Context& context, const format::Geometry& geometry) {
  if (const std::string note = compare_with_profiles(context.os, geometry); !note.empty())
    context.progress.say(note);
}

}  // namespace planesmith
