// Entries of ignore lists and of recipe targets, as the quantizers' files spell them.
#pragma once

#include <optional>
#include <regex>
#include <string>
#include <vector>

#include "audit/checks.h"

namespace planesmith {

// "re:..." is a regular expression from the start of a module's name, "*" stands for anything, otherwise it
// is a module and what is below it. A word like Linear is a class of modules: names do not tell what it
// matches.
class Pattern {
 public:
  explicit Pattern(const std::string& text);
  const std::string& text() const { return text_; }
  bool sound() const { return sound_; }  // false: no regular expression that can be read
  bool is_class() const;
  bool matches(const std::string& module) const;

 private:
  std::string text_;
  std::optional<std::regex> regex_;
  bool sound_ = true;
};

// The strings of a JSON list; those that are not sound are findings and left out.
std::vector<Pattern> patterns(const Json& list, Findings& findings);
// All that the recipe excludes, under any of the names that quantizers have for it.
std::vector<Pattern> ignored(const Inventory& inventory, Findings& findings);
bool any_matches(const std::vector<Pattern>& patterns, const std::string& module);

}  // namespace planesmith
