#include "manifest/profile.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <stdlib.h>

#include <numeric>

#include "base/error.h"
#include "base/file.h"
#include "base/json.h"

namespace planesmith {
namespace {

// Above every model, and low enough that products of a few of them cannot overflow.
constexpr std::uint64_t kMostCount = 1 << 16, kMostWidth = 1 << 24;
constexpr std::uint64_t kMostBytes = 1 << 20;

// The value of a key of an object; null where it is absent.
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
  std::vector<std::uint64_t> layers(geometry.layers - first_dense);
  std::iota(layers.begin(), layers.end(), first_dense);
  return layers;
}

Profile parse_profile(std::string_view json, const std::string& path) {
  const Json object = parse_json(json, path);
  if (!object.is_object()) throw Error(path, "is no profile: not a JSON object");
  Profile profile;
  profile.name = text(value_of(object, "name"), "name", path);
  const Json& geometry = value_of(object, "geometry");
  if (!geometry.is_object()) throw Error(path, "is no profile: it has no \"geometry\"");
  const auto of_geometry = [&](const char* key, std::uint64_t most) {
    return number(value_of(geometry, key), key, 1, most, path);
  };
  profile.geometry = {of_geometry("layers", kMostCount), of_geometry("experts", kMostCount),
                      of_geometry("hidden", kMostWidth), of_geometry("intermediate", kMostWidth)};
  if (geometry.contains("first_dense"))
    profile.first_dense = number(geometry["first_dense"], "first_dense", 0, profile.geometry.layers, path);
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

std::vector<std::string> profile_folders() {
  std::vector<std::string> folders;
  if (const char* chosen = ::getenv("PLANESMITH_PROFILES"); chosen != nullptr && *chosen != '\0')
    folders.push_back(chosen);
  folders.push_back(join(parent_of(parent_of(real_path("/proc/self/exe"))), "share/planesmith/profiles"));
  folders.push_back(PLANESMITH_SOURCE_PROFILES);
  return folders;
}

Profile find_profile(Os& os, const std::string& name_or_file) {
  std::vector<std::string> paths = {name_or_file}, names;
  const bool is_name = name_or_file.find('/') == std::string::npos;
  if (is_name)
    for (const std::string& folder : profile_folders()) paths.push_back(join(folder, name_or_file + ".json"));
  for (const std::string& path : paths)
    if (exists(os, path) && !S_ISDIR(status(os, path).st_mode))
      return parse_profile(read_text(os, path, kMostBytes), path);

  for (const std::string& folder : profile_folders()) {
    if (!exists(os, folder)) continue;
    for (const std::string& file : list_dir(os, folder))
      if (file.ends_with(".json")) names.push_back(file.substr(0, file.size() - 5));
  }
  throw Error(ErrorCode::usage, name_or_file,
              names.empty()
                  ? "is no profile, neither a file nor a name; none are installed"
                  : fmt::format("is no profile, neither a file nor one of {}", fmt::join(names, ", ")));
}

}  // namespace planesmith
