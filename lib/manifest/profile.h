// Model profiles: what is known about a model without its files (manifests/profiles).
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
  std::string revision{};                         // of the checkpoint; empty: unknown
  std::optional<format::Geometry> geometry{};     // none: unknown
  std::uint64_t first_dense = 0;                  // number of dense layers before the first sparse one
  std::vector<std::string> families{};            // "MXFP4", ...; empty: unknown
  std::optional<std::uint64_t> expert_tensors{};  // weights of routed experts in the checkpoint
  std::map<std::string, std::string> pins{};      // "ckpt_id" of a published cache, "engine_commit", ...

  std::vector<std::uint64_t> sparse_layers() const;  // layer indices; empty if the geometry is unknown
};

// Only the name is required; a geometry must be complete (layers, experts, hidden, intermediate); other keys
// are ignored. Errors: not JSON, a known key of another type, a number out of range (format/limits.h).
Profile parse_profile(std::string_view text, const std::string& path);

// The directories of profiles in order of preference: $PLANESMITH_PROFILES, share/planesmith/profiles beside
// the directory of the running program, the source tree that this was built from, if it is ours or root's.
std::vector<std::string> profile_directories();

// The names of all installed profiles, sorted, without those that a shell would not take as they are.
std::vector<std::string> profile_names(Os& os);

// Reads a file if given a path (with a slash, or ending in .json), else <directory>/<name>.json; names are
// never looked up in the current directory. A usage Error lists the installed profiles.
Profile find_profile(Os& os, const std::string& name_or_file);

// Compares a geometry with all profiles, for messages: "matches profile A, B", or "matches no profile;
// differs least from A: experts 160 instead of 256". Empty: in every profile more than two numbers differ.
std::string compare_with_profiles(Os& os, const format::Geometry& geometry);
// Reports the result of compare_with_profiles() as progress, unless it is empty.
void say_profile(const Context& context, const format::Geometry& geometry);

}  // namespace planesmith
