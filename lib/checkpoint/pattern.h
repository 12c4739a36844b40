// Entries of ignore lists and of recipe targets, as the quantizers' files spell them.
#pragma once

#include <memory>
#include <string>
#include <vector>

namespace re2 {
class RE2;
}

namespace planesmith {

// "re:..." is a regular expression from the start of a module's name, "*" stands for any text, and other text
// names a module with everything below it, or the end of a module's name. A word like Linear is a class of
// modules: names do not tell what it matches. Matching takes linear time; an expression that such a matcher
// lacks (look-around, back references) is not sound.
class Pattern {
 public:
  explicit Pattern(const std::string& text);
  const std::string& text() const { return text_; }
  bool sound() const { return sound_; }  // false: not a usable regular expression
  bool is_class() const;
  bool matches(const std::string& module) const;
  // As compressed-tensors matches its targets: an expression, or exactly this module.
  bool matches_exactly(const std::string& module) const;

 private:
  std::string text_;
  std::shared_ptr<const re2::RE2> regex_;  // none: not an expression
  bool sound_ = true;
};

bool any_matches(const std::vector<Pattern>& patterns, const std::string& module);

}  // namespace planesmith
