#include "verify_ckpt_id/configuration.h"

#include <unistd.h>

#include "base/error.h"
#include "base/file.h"
#include "common/flag_values.h"
#include "store/serving.h"

namespace planesmith {
namespace {

constexpr std::uint64_t kMostText = 1 << 20;

}  // namespace

Environment of_this_process() {
  Environment out;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string_view text = *entry;
    const std::size_t equals = text.find('=');
    if (equals != text.npos && equals != 0)
      out[std::string(text.substr(0, equals))] = text.substr(equals + 1);
  }
  return out;
}

void add_configuration_flags(CLI::App& app, ConfigurationFlags& flags) {
  app.add_option("--for", flags.mode,
                 "Mode of the engine to check for; --fp4 and --tiers override it (default: the one that the "
                 "files serve)")
      ->type_name(modes_type());
  app.add_option("--env-file", flags.env_file,
                 "Check this configuration of the engine instead of a mode: docker's env file");
  app.add_option("--env", flags.env, "The same, one NAME=VALUE; may be given several times")
      ->allow_extra_args(false);
  app.add_option("--recipe", flags.recipe,
                 "The same, a recipe of the engine (YAML); {planes_cache} stands for --planescache");
  app.add_flag("--from-environment", flags.from_environment, "The same, the environment of this command");
  app.add_option("--gpu-memory", flags.gpu_memory,
                 "Memory of one GPU, to compare with planes and pools and to size the pools of host modes "
                 "(default: from the recipe; else nothing is compared and pools are small)");
}

std::optional<ReadConfiguration> read_configuration(Context& context, const ConfigurationFlags& flags,
                                                    const std::string& planes_cache, Findings& findings) {
  if (!flags.recipe && !flags.env_file && !flags.from_environment && flags.env.empty()) return std::nullopt;
  ReadConfiguration out;
  const auto add = [&](const Environment& more) {
    for (const auto& [name, value] : more) out.environment[name] = value;
  };
  if (flags.recipe) {
    const std::string root = planes_cache.empty() ? "" : absolute_path(planes_cache);
    out.recipe = parse_recipe(read_text(context.os, *flags.recipe, kMostText), *flags.recipe, root);
    add(out.recipe.environment);
  }
  if (flags.from_environment) add(of_this_process());
  if (flags.env_file)
    add(parse_env_file(read_text(context.os, *flags.env_file, kMostText), *flags.env_file,
                       of_this_process()));
  for (const std::string& text : flags.env) add({parse_assignment(text, "--env")});
  find_misspelled(out.environment, findings);
  out.settings = read_settings(out.environment, findings);
  return out;
}

}  // namespace planesmith
