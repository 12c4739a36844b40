// A manifest of any files.
#pragma once

#include <string>
#include <vector>

#include "base/context.h"
#include "manifest/manifest.h"

namespace planesmith {

struct Hashes {
  bool xxh3 = true, sha256 = true;
};

struct TreeManifest {
  Manifest manifest;
  std::string root;  // the directory that its paths are relative to, if not the manifest's own; else empty
};

// A manifest of everything at and below `paths`, to be written to `out` (which is left out if it is inside).
// Paths are relative to out's directory or, if that is not above all of `paths`, to the directory that holds
// them. Errors: no single directory holds the paths (usage); names that are not UTF-8; devices, FIFOs,
// sockets; files that cannot be read or change meanwhile.
TreeManifest make_manifest(const Context& context, const std::vector<std::string>& paths,
                           const std::string& out, Hashes hashes);

}  // namespace planesmith
