#include "common/suggest.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"

namespace planesmith {
namespace {

// Edit distance: insertions, deletions, replacements and exchanged neighbours.
std::size_t distance(const std::string& a, const std::string& b) {
  std::vector<std::vector<std::size_t>> d(a.size() + 1, std::vector<std::size_t>(b.size() + 1));
  for (std::size_t i = 0; i <= a.size(); ++i) d[i][0] = i;
  for (std::size_t j = 0; j <= b.size(); ++j) d[0][j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i)
    for (std::size_t j = 1; j <= b.size(); ++j) {
      d[i][j] = std::min({d[i - 1][j] + 1, d[i][j - 1] + 1, d[i - 1][j - 1] + (a[i - 1] != b[j - 1])});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
        d[i][j] = std::min(d[i][j], d[i - 2][j - 2] + 1);
    }
  return d[a.size()][b.size()];
}

std::string asked(const std::string& word) {
  return word.empty() ? "" : fmt::format("; did you mean {}?", word);
}

// The program and the chosen subcommand.
std::vector<const CLI::App*> in_use(const CLI::App& app) {
  std::vector<const CLI::App*> out = {&app};
  for (const CLI::App* command : app.get_subcommands()) out.push_back(command);
  return out;
}

std::vector<std::string> words_of(const std::string& list, char separator) {
  std::vector<std::string> out(1);
  for (const char c : list)
    if (c == separator)
      out.emplace_back();
    else
      out.back() += c;
  return out;
}

// What stands in braces in the name of an option's type.
std::vector<std::string> listed(const CLI::Option& option) {
  const std::string type = option.get_type_name();
  const std::size_t open = type.find('{'), close = type.find('}');
  if (open == std::string::npos || close == std::string::npos) return {};
  return words_of(type.substr(open + 1, close - open - 1), ',');
}

}  // namespace

std::string nearest_word(const std::string& word, const std::vector<std::string>& candidates) {
  constexpr std::size_t kLongest = 64;
  if (word.size() > kLongest) return "";
  std::string best;
  std::size_t fewest = std::max<std::size_t>(1, word.size() / 3) + 1;
  for (const std::string& candidate : candidates)
    if (const std::size_t d = distance(word, candidate); d < fewest && d < candidate.size()) {
      best = candidate;
      fewest = d;
    }
  if (!best.empty() || word.size() < 3) return best;
  for (const std::string& candidate : candidates)
    if (candidate.starts_with(word)) return candidate;
  return "";
}

std::string suggestion_for(const CLI::App& app, const std::string& argument) {
  std::vector<std::string> candidates;
  if (argument.starts_with('-')) {
    for (const CLI::App* command : in_use(app))
      for (const CLI::Option* option : command->get_options())
        for (const std::string& name : option->get_lnames()) candidates.push_back("--" + name);
    return asked(nearest_word(argument.substr(0, argument.find('=')), candidates));
  }
  if (!app.get_subcommands().empty()) return "";
  for (const CLI::App* command : app.get_subcommands({})) candidates.push_back(command->get_name());
  return asked(nearest_word(argument, candidates));
}

std::string suggestion_for_values(const CLI::App& app) {
  for (const CLI::App* command : in_use(app))
    for (const CLI::Option* option : command->get_options()) {
      const std::vector<std::string> accepted = choices(*option);
      if (accepted.empty() || accepts_others(*option)) continue;
      for (const std::string& result : option->results())
        for (const std::string& value : words_of(result, ','))
          if (std::find(accepted.begin(), accepted.end(), value) == accepted.end())
            return asked(nearest_word(value, accepted));
    }
  return "";
}

std::vector<std::string> choices(const CLI::Option& option) {
  std::vector<std::string> words = listed(option);
  if (accepts_others(option)) words.pop_back();
  return words;
}

bool accepts_others(const CLI::Option& option) {
  const std::vector<std::string> words = listed(option);
  return !words.empty() && words.back() == "...";
}

}  // namespace planesmith
