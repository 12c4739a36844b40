// Suggestions for mistyped options, subcommands and values.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

namespace planesmith {

// The candidate nearest to the word; empty: none is near.
std::string nearest_word(const std::string& word, const std::vector<std::string>& candidates);

// "; did you mean --planescache?" for an argument that no option takes; empty: nothing is near.
std::string suggestion_for(const CLI::App& app, const std::string& argument);

// The same for the first given value that its option does not accept.
std::string suggestion_for_values(const CLI::App& app);

// The words that an option accepts, from a type name like "TEXT:{auto,cpu,cuda}"; empty: it accepts any. A
// last
// "..." says that it accepts others, too.
std::vector<std::string> choices(const CLI::Option& option);
bool accepts_others(const CLI::Option& option);

}  // namespace planesmith
