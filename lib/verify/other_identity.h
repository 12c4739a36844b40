// A cache or pack that is all a manifest says, but was built under another identity.
#pragma once

#include <optional>
#include <string>

#include "base/os.h"
#include "manifest/manifest.h"

namespace planesmith {

// The identity under which `root` has what the manifest describes, where that is not the manifest's own:
// nothing else in meta.json or sidecar differs. None: the manifest's own, or nothing of the kind.
std::optional<std::string> other_identity(Os& os, const Manifest& manifest, const std::string& root);

// The manifest as it would be for that identity.
Manifest under_identity(Manifest manifest, const std::string& ckpt_id);

}  // namespace planesmith
