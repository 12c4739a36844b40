#include "checkpoint/pattern.h"

#include <re2/re2.h>

#include <algorithm>
#include <cctype>

namespace planesmith {

Pattern::Pattern(const std::string& text) : text_(text) {
  std::string regex;
  if (text.starts_with("re:")) {
    regex = text.substr(3);
  } else if (text.find('*') != std::string::npos) {
    for (const char c : text) regex += c == '*' ? std::string(".*") : RE2::QuoteMeta(std::string(1, c));
    regex += "$";
  }
  if (regex.empty()) return;
  constexpr std::size_t kLongest = 300;  // a pattern of a recipe, not a program
  if (regex.size() > kLongest) {
    sound_ = false;
    return;
  }
  RE2::Options options(RE2::Quiet);
  options.set_max_mem(1 << 20);
  regex_ = std::make_shared<const RE2>("^(?:" + regex + ")", options);
  sound_ = regex_->ok();
  if (!sound_) regex_.reset();
}

bool Pattern::is_class() const {
  return !text_.empty() && std::isupper(static_cast<unsigned char>(text_[0])) != 0 &&
         std::all_of(text_.begin(), text_.end(), [](unsigned char c) { return std::isalnum(c) != 0; });
}

bool Pattern::matches(const std::string& module) const {
  constexpr std::size_t kLongestName = 1000;
  if (!sound_) return false;
  if (regex_) return module.size() <= kLongestName && RE2::PartialMatch(module, *regex_);
  if (module.size() <= text_.size()) return module == text_;
  return (module.starts_with(text_) && module[text_.size()] == '.') ||
         (module.ends_with(text_) && module[module.size() - text_.size() - 1] == '.');
}

bool Pattern::matches_exactly(const std::string& module) const {
  return text_.starts_with("re:") ? matches(module) : module == text_;
}

bool any_matches(const std::vector<Pattern>& patterns, const std::string& module) {
  return std::any_of(patterns.begin(), patterns.end(), [&](const Pattern& p) { return p.matches(module); });
}

}  // namespace planesmith
