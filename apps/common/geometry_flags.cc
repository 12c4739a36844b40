#include "common/geometry_flags.h"

#include "common/flag_values.h"
#include "manifest/profile.h"

namespace planesmith {

std::vector<CLI::Option*> add_geometry_flags(CLI::App& app, GeometryFlags& flags) {
  return {app.add_option("--config", flags.config,
                         "config.json (or its directory) with the model's geometry, if no manifest has it"),
          add_profile_flag(app, flags.profile,
                           "Name or file of a model profile with the geometry, instead of --config")};
}

std::optional<KnownModel> told_model(Os& os, const GeometryFlags& flags) {
  if (!flags.config.empty()) return model_of_config(os, flags.config);
  if (!flags.profile.empty()) return model_of_profile(find_profile(os, flags.profile));
  return std::nullopt;
}

}  // namespace planesmith
