#include "audit/pattern.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>

namespace planesmith {

Pattern::Pattern(const std::string& text) : text_(text) {
  std::string regex;
  if (text.starts_with("re:")) {
    regex = text.substr(3);
  } else if (text.find('*') != std::string::npos) {
    for (const char c : text) {
      if (c == '*')
        regex += ".*";
      else
        regex += std::isalnum(static_cast<unsigned char>(c)) != 0 ? std::string(1, c) : std::string("\\") + c;
    }
    regex += "$";
  }
  if (regex.empty()) return;
  constexpr std::size_t kLongest = 300;  // a pattern of a recipe, not a program
  try {
    if (regex.size() > kLongest) throw std::regex_error(std::regex_constants::error_space);
    regex_.emplace("^(?:" + regex + ")", std::regex::ECMAScript | std::regex::optimize);
  } catch (const std::regex_error&) {
    sound_ = false;
  }
}

bool Pattern::is_class() const {
  return !text_.empty() && std::isupper(static_cast<unsigned char>(text_[0])) != 0 &&
         std::all_of(text_.begin(), text_.end(), [](unsigned char c) { return std::isalnum(c) != 0; });
}

bool Pattern::matches(const std::string& module) const {
  constexpr std::size_t kLongestName = 1000;
  if (regex_) return module.size() <= kLongestName && std::regex_search(module, *regex_);
  if (module.size() <= text_.size()) return module == text_;
  return (module.starts_with(text_) && module[text_.size()] == '.') ||
         (module.ends_with(text_) && module[module.size() - text_.size() - 1] == '.');
}

std::vector<Pattern> patterns(const Json& list, Findings& findings) {
  std::vector<Pattern> out;
  if (!list.is_array()) return out;
  for (const Json& entry : list) {
    if (!entry.is_string()) continue;
    Pattern pattern(entry.get<std::string>());
    if (pattern.sound()) {
      out.push_back(std::move(pattern));
    } else {
      findings.push_back({"recipe.bad-pattern", Severity::warning,
                          fmt::format("'{}' is not an usable pattern", pattern.text()),
                          "what it was meant to match is treated as if it were not listed",
                          "fix the pattern"});
    }
  }
  return out;
}

std::vector<Pattern> ignored(const Inventory& inventory, Findings& findings) {
  std::vector<Pattern> out;
  for (const Json* recipe : {&inventory.quantization, &inventory.modelopt})
    for (const char* key : {"ignore", "exclude_modules", "modules_to_not_convert", "ignored_layers"})
      if (recipe->contains(key))
        for (Pattern& pattern : patterns((*recipe)[key], findings)) out.push_back(std::move(pattern));
  return out;
}

bool any_matches(const std::vector<Pattern>& patterns, const std::string& module) {
  return std::any_of(patterns.begin(), patterns.end(), [&](const Pattern& p) { return p.matches(module); });
}

}  // namespace planesmith
