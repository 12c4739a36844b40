// What a mistyped option, subcommand or value was probably meant to be.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

namespace planesmith {

// The candidate that is nearest to the word; empty where none is near.
std::string nearest_word(const std::string& word, const std::vector<std::string>& candidates);

// "; did you mean --planescache?" for an argument that could not be taken in; empty: nothing is near.
std::string suggestion_for(const CLI::App& app, const std::string& argument);

// The same for the first value given that is none of those its option accepts.
std::string suggestion_for_values(const CLI::App& app);

// The words that an option accepts, where it accepts only some: CLI11 writes "TEXT:{auto,cpu,cuda}".
std::vector<std::string> choices(const CLI::Option& option);

}  // namespace planesmith
