// Detects a cache or pack that matches a manifest except for its identity.
#pragma once

#include <optional>
#include <string>

#include "base/os.h"
#include "manifest/manifest.h"

namespace planesmith {

// The identity under which `root` holds what the manifest describes, if meta.json or sidecar differs from the
// manifest in nothing else. None: the identity is the manifest's, or there is more that differs.
std::optional<std::string> other_identity(Os& os, const Manifest& manifest, const std::string& root);

// The manifest as it would be under that identity.
Manifest under_identity(Manifest manifest, const std::string& ckpt_id);

}  // namespace planesmith
