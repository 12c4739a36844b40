// Units: what has a manifest, or should have one. The ranks of planes caches, packs, sets of chunks, trees.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/context.h"
#include "manifest/manifest.h"
#include "verify/verify_files.h"

namespace planesmith {

struct Unit {
  ManifestKind kind = ManifestKind::tree;
  std::string path;           // the rank's directory, the .pack, the directory of parts or files
  std::string root;           // the directory that the manifest's paths are relative to
  std::string manifest_path;  // where the manifest is or should be
};

// Root of the planes cache that a rank's directory is in.
std::string cache_root(const Unit& unit);

// The units at and below `path`, sorted; links below it are not followed. If `path` is a file, it is a
// manifest or a pack. Errors: it does not exist; it contains no unit (with a hint).
std::vector<Unit> find_units(const Context& context, const std::string& path);

// The result of verifying one unit.
struct UnitReport {
  Unit unit;
  std::optional<Manifest> manifest;  // none: `problem` says why
  std::string problem;               // what is wrong with the manifest or the unit's place; empty: nothing
  std::string known_id;              // if only the manifest's identity is wrong: the right one
  std::string proper_path;           // if only the name is wrong: the right path
  Verification result;
  std::vector<std::string> to_do;  // advice: a sentence or a command each
  bool ok() const { return problem.empty() && result.ok(); }
};

// options.root and manifest_path are ignored, since the unit has them. Errors: as verify_files(); a damaged
// manifest is reported as `problem`.
UnitReport verify_unit(const Context& context, const Unit& unit, VerifyOptions options);

std::string to_text(const UnitReport& report, const VerifyOptions& options);
Json to_json(const UnitReport& report, const VerifyOptions& options);

}  // namespace planesmith
