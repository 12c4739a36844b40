// The parts of --help and man pages other than options: examples, exit status, environment, files.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace planesmith {

// Command lines and their descriptions; `command` is "build-planescache" or "verify-ckpt-id check".
std::vector<std::pair<std::string_view, std::string_view>> examples(std::string_view command);

struct HelpSection {
  std::string_view title;
  std::vector<std::pair<std::string_view, std::string_view>> items;
};
// EXIT STATUS, ENVIRONMENT and FILES, the same for all programs.
const std::vector<HelpSection>& common_sections();

// Adds all sections below the options of the program and of its subcommands.
void add_help_sections(CLI::App& app);

}  // namespace planesmith
