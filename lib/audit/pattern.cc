#include "audit/pattern.h"

#include <fmt/format.h>

namespace planesmith {

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
                          fmt::format("'{}' is not a usable pattern", pattern.text()),
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

}  // namespace planesmith
