// --config and --profile: the model's geometry if neither a checkpoint nor a manifest has it (CLI.md,
// "Geometry, where no checkpoint is given").
#pragma once

#include <CLI/CLI.hpp>
#include <optional>
#include <string>
#include <vector>

#include "base/os.h"
#include "manifest/known_model.h"

namespace planesmith {

struct GeometryFlags {
  std::string config, profile;
};

// Returns the two options.
std::vector<CLI::Option*> add_geometry_flags(CLI::App& app, GeometryFlags& flags);

// The model of --config, else of --profile; none: neither was given.
std::optional<KnownModel> told_model(Os& os, const GeometryFlags& flags);

}  // namespace planesmith
