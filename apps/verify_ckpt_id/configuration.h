// Flags that describe how the engine will be started: a mode, or an environment (ENGINE.md sections 1 and 2).
#pragma once

#include <CLI/CLI.hpp>
#include <optional>
#include <string>
#include <vector>

#include "base/context.h"
#include "serve/judge.h"

namespace planesmith {

struct ConfigurationFlags {
  std::optional<std::string> mode, env_file, recipe, gpu_memory;
  std::vector<std::string> env;
  bool from_environment = false;
};

Environment of_this_process();

void add_configuration_flags(CLI::App& app, ConfigurationFlags& flags);

// A configuration and the environment it was read from.
struct ReadConfiguration : Configuration {
  Environment environment;
};
// The configuration of --recipe, --from-environment, --env-file and --env; later ones in this order override
// earlier ones. None: no such flag was given. planes_cache: the path that replaces {planes_cache} in a
// recipe.
std::optional<ReadConfiguration> read_configuration(Context& context, const ConfigurationFlags& flags,
                                                    const std::string& planes_cache, Findings& findings);

}  // namespace planesmith
