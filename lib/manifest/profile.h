// Model profiles: what is known about a model before any of its files is there (manifests/profiles).
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/context.h"
#include "base/os.h"
#include "format/geometry.h"

namespace planesmith {

struct Profile {
  std::string name;
  std::string revision{};                         // of the checkpoint; empty: not known
  std::optional<format::Geometry> geometry{};     // none: not known
  std::uint64_t first_dense = 0;                  // dense layers in front of the first sparse one
  std::vector<std::string> families{};            // "MXFP4", ...; empty: not known
  std::optional<std::uint64_t> expert_tensors{};  // weights of routed experts in the checkpoint
  std::map<std::string, std::string> pins{};      // "ckpt_id" of a published cache, "engine_commit", ...

  std::vector<std::uint64_t> sparse_layers() const;  // indices; empty where the geometry is not known
};

// Only the name must be there; a geometry must be whole (layers, experts, hidden, intermediate); keys that
// are not read here are left to others. Errors: not JSON, a known key of another type, a number that no model
// could have.
Profile parse_profile(std::string_view text, const std::string& path);

// Where profiles are looked for by name, first match first: $PLANESMITH_PROFILES, share/planesmith/profiles
// beside the directory of the running program, the source tree this was built from, where it is ours or
// root's.
std::vector<std::string> profile_directories();

// A file where a path is given (with a slash, or ending in .json), else <directory>/<name>.json; a name is
// never looked for in the current directory. A usage Error lists the profiles there are.
Profile find_profile(Os& os, const std::string& name_or_file);

// What the profiles say of a model of this geometry, for people: "matches profile A, B", or "matches no
// profile; differs least from A: experts 160 instead of 256". Empty where no
// profile is akin (more than two numbers differ).
std::string compare_with_profiles(Os& os, const format::Geometry& geometry);
// Says it, where there is anything to say.
void say_profile(const Context& context, const format::Geometry& geometry);

}  // namespace planesmith
