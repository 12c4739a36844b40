// What must be known about a cache's model if its checkpoint is not there:
// the geometry, and which layers are sparse.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/json.h"
#include "checkpoint/model.h"
#include "format/geometry.h"
#include "manifest/manifest.h"
#include "manifest/profile.h"

namespace planesmith {

struct KnownModel {
  format::Geometry geometry;
  std::vector<std::uint64_t> layers;  // indices of the sparse layers, sorted; the position is the layer key
  std::string source;                 // "manifest /x/manifest.json": for messages
  std::optional<Family> family{};     // of the checkpoint's experts; none: unknown
};

// The same model with this many DSpark blocks as layers L, L + 1, ...
KnownModel with_drafts(KnownModel model, std::uint64_t drafts);

KnownModel model_of_manifest(const CacheFacts& facts, const std::string& path);
KnownModel model_of_profile(const Profile& profile);
KnownModel model_of_checkpoint(const Model& model, const std::string& directory);
// path: a config.json, or the directory that has one.
// Errors: a key is missing, or it does not say which layers are sparse.
KnownModel model_of_config(Os& os, const std::string& path);

}  // namespace planesmith
