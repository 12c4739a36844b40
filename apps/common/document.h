// Man pages and shell completions, made from the same declarations of flags as --help.
#pragma once

#include <CLI/CLI.hpp>
#include <string>

namespace planesmith {

std::string man_page(const CLI::App& app);
std::string bash_completion(const CLI::App& app);
std::string zsh_completion(const CLI::App& app);

// Adds --generate man|bash|zsh, which prints one of them; the build uses it.
void add_generate_flag(CLI::App& app);

}  // namespace planesmith
