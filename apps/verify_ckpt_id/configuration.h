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

void add_configuration_flags(CLI::App& app, ConfigurationFlags& flags);

// A configuration and the environment it was read from.
struct ReadConfiguration : Configuration {
  Environment environment;
};
// What --recipe, --env-file, --from-environment and --env say, the later over the earlier; none: none of them
// was given. planes_cache: what {planes_cache} of a recipe stands for.
std::optional<ReadConfiguration> read_configuration(Context& context, const ConfigurationFlags& flags,
                                                    const std::string& planes_cache, Findings& findings);

}  // namespace planesmith
