// What has a manifest, or should have one: the ranks of planes caches, packs, sets of chunks, trees.
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
  std::string root;           // what the manifest's paths are relative to
  std::string manifest_path;  // where the manifest is or has to be
};

// Everything at and below `path`, sorted; links below it are not followed. A file is a manifest or a pack.
// Errors: it is not there; there is nothing of the kind in it, with a hint where there may be.
std::vector<Unit> find_units(const Context& context, const std::string& path);

// One unit, looked at.
struct UnitReport {
  Unit unit;
  std::optional<Manifest> manifest;  // none: problem says why
  std::string problem;      // what is wrong with the manifest or with where the unit lies; empty: nothing
  std::string known_id;     // identity by name and meta.json or sidecar, where only the manifest's is wrong
  std::string proper_path;  // where it belongs, where only the name is wrong
  Verification result;
  std::vector<std::string> to_do;  // a sentence or a command each
  bool ok() const { return problem.empty() && result.ok(); }
};

// options.root and manifest_path are the unit's. Errors as verify_files(); a damaged manifest is a problem.
UnitReport verify_unit(const Context& context, const Unit& unit, VerifyOptions options);

std::string to_text(const UnitReport& report, const VerifyOptions& options);
Json to_json(const UnitReport& report, const VerifyOptions& options);

}  // namespace planesmith
