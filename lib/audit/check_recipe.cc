// What quantizers lose without a word, and recipes whose patterns match something else than they were meant to.
#include <fmt/format.h>

#include <algorithm>
#include <regex>
#include <set>

#include "audit/checks.h"
#include "checkpoint/tensor_name.h"

namespace planesmith {
namespace {

// One entry of an ignore list or a target: "re:..." is a regular expression from the start of the name, "*" stands for
// anything, otherwise it is a module and what is below it.
class Pattern {
 public:
  explicit Pattern(const std::string& text) : text_(text) {
    std::string regex;
    if (text.starts_with("re:")) {
      regex = text.substr(3);
    } else if (text.find('*') != std::string::npos) {
      for (const char c : text) regex += c == '*' ? ".*" : std::isalnum(static_cast<unsigned char>(c)) ? std::string(1, c) : std::string("\\") + c;
      regex += "$";
    }
    constexpr std::size_t kLongest = 300;  // a pattern of a recipe, not a program
    if (!regex.empty() && regex.size() <= kLongest) {
      try {
        regex_.emplace("^(?:" + regex + ")", std::regex::ECMAScript | std::regex::optimize);
      } catch (const std::regex_error&) {
        sound_ = false;
      }
    } else if (regex.size() > kLongest) {
      sound_ = false;
    }
  }
  bool sound() const { return sound_; }
  const std::string& text() const { return text_; }
  bool matches(const std::string& module) const {
    constexpr std::size_t kLongestName = 1000;
    if (regex_) return module.size() <= kLongestName && std::regex_search(module, *regex_);
    return module == text_ || (module.starts_with(text_) && module[text_.size()] == '.') ||
           (module.size() > text_.size() && module.ends_with(text_) && module[module.size() - text_.size() - 1] == '.');
  }

 private:
  std::string text_;
  std::optional<std::regex> regex_;
  bool sound_ = true;
};

std::vector<Pattern> patterns(const Json& list, Findings& findings) {
  std::vector<Pattern> out;
  if (!list.is_array()) return out;
  for (const Json& entry : list) {
    if (!entry.is_string()) continue;
    Pattern pattern(entry.get<std::string>());
    if (pattern.sound()) {
      out.push_back(std::move(pattern));
    } else {
      findings.push_back({"recipe.bad-pattern", Severity::warning, fmt::format("'{}' is no usable pattern", pattern.text()),
                          "what it was meant to match is treated as if it were not listed", "mend the pattern"});
    }
  }
  return out;
}

bool any_matches(const std::vector<Pattern>& patterns, const std::string& module) {
  return std::any_of(patterns.begin(), patterns.end(), [&](const Pattern& p) { return p.matches(module); });
}

bool quantized(Dtype dtype) {
  return dtype == Dtype::f8_e4m3 || dtype == Dtype::f8_e5m2 || dtype == Dtype::i8 || dtype == Dtype::u8 || dtype == Dtype::f4;
}

void check_drafters(const Inventory& inventory, const std::vector<Pattern>& ignore, Findings& findings) {
  std::set<std::string> drafters;  // "mtp.0", "model.layers.61"
  bool unquantized = false, ignored = true;
  std::string first;
  for (const auto& [name, tensor] : inventory.tensors) {
    const TensorName parsed = parse_tensor_name(name, inventory.layers(), tensor.shape.size());
    if (parsed.left_as != "MTP") continue;
    const std::size_t mtp = name.find("mtp."), layers = name.find("layers.");
    const std::size_t start = mtp != std::string::npos ? mtp + 4 : layers != std::string::npos ? layers + 7 : 0;
    drafters.insert(name.substr(0, name.find('.', start)));
    if (name.ends_with(".weight") && tensor.shape.size() == 2 && !quantized(tensor.dtype)) {
      unquantized = true;
      if (first.empty()) first = name;
      if (!any_matches(ignore, name.substr(0, name.size() - 7))) ignored = false;
    }
  }
  const Json& claimed = config_value(inventory.config, "num_nextn_predict_layers");
  if (claimed.is_number_unsigned() && claimed.get<std::uint64_t>() != drafters.size())
    findings.push_back({"mtp.count", drafters.empty() || drafters.size() > claimed.get<std::uint64_t>() ? Severity::warning : Severity::error,
                        fmt::format("num_nextn_predict_layers is {}, the shards hold {} drafter layers",
                                    claimed.get<std::uint64_t>(), drafters.size()),
                        "speculative decoding fails to load, or runs with weights that are not there",
                        "add the drafter's tensors, or set the number to what is there"});
  if (unquantized && !ignored && !inventory.quantization.empty() && inventory.quantization.contains("ignore"))
    findings.push_back({"mtp.not-ignored", Severity::error,
                        fmt::format("drafter weights such as '{}' are not quantized, and quantization_config.ignore has nothing "
                                    "like re:^mtp.*",
                                    first),
                        "loaders expect quantized weights there and fail, or read garbage", "add \"re:^mtp.*\" to ignore"});
}

void check_ignored(const std::vector<Pattern>& ignore, const std::vector<std::string>& modules, Findings& findings) {
  for (const Pattern& pattern : ignore)
    if (std::none_of(modules.begin(), modules.end(), [&](const std::string& m) { return pattern.matches(m); }))
      findings.push_back({"recipe.ignore-unmatched", Severity::warning, fmt::format("'{}' matches no tensor", pattern.text()),
                          "a misspelt entry protects nothing", "mend or drop the entry"});
}

void check_quantized_by_mistake(const Inventory& inventory, Findings& findings) {
  for (const auto& [name, tensor] : inventory.tensors) {
    if (!name.ends_with(".weight") || !quantized(tensor.dtype)) continue;
    const std::string_view kind = parse_tensor_name(name, inventory.layers(), tensor.shape.size()).left_as;
    if (kind != "router" && kind != "embeddings" && kind != "head") continue;
    findings.push_back({"recipe.sensitive-quantized", Severity::error, fmt::format("'{}' ({}) is {}", name, kind, planesmith::name(tensor.dtype)),
                        "routers, embeddings and head lose far more by quantization than they save",
                        "exclude them in the recipe and quantize again"});
    return;  // one stands for all
  }
}

void check_groups(const Inventory& inventory, const std::vector<Pattern>& ignore, const std::vector<std::string>& modules,
                  Findings& findings) {
  const auto groups = inventory.quantization.find("config_groups");
  if (groups == inventory.quantization.end() || !groups->is_object()) return;
  struct Group {
    std::string name;
    std::vector<Pattern> targets;
    bool all_linear = false;
    std::uint64_t matched = 0;
  };
  std::vector<Group> list;
  for (const auto& [name, group] : groups->items()) {
    if (!group.is_object()) continue;
    Group parsed{name, {}, false, 0};
    if (group.contains("targets")) {
      parsed.targets = patterns(group["targets"], findings);
      parsed.all_linear = std::any_of(parsed.targets.begin(), parsed.targets.end(), [](const Pattern& p) { return p.text() == "Linear"; });
    }
    const Json weights = group.value("weights", Json()), activations = group.value("input_activations", Json());
    if (weights.is_object() && weights.value("num_bits", 0) == 4 && weights.value("type", "") == "float" &&
        activations.is_object() && activations.value("num_bits", 0) != 4)
      findings.push_back({"recipe.activations", Severity::warning,
                          fmt::format("group '{}' has 4-bit weights with input activations of {} bits", name,
                                      activations.value("num_bits", 0)),
                          "the engine serves such experts from planes and ignores the activation settings",
                          "expect other outputs than with a runtime that honours them"});
    list.push_back(std::move(parsed));
  }
  std::uint64_t overlapping = 0, uncovered = 0;
  std::string first_overlapping, first_uncovered;
  for (const std::string& module : modules) {
    const Tensor* weight = inventory.find(module + ".weight");
    if (weight == nullptr || weight->shape.size() != 2 || any_matches(ignore, module)) continue;
    int hits = 0;
    for (Group& group : list)
      if (group.all_linear || any_matches(group.targets, module)) {
        ++group.matched;
        ++hits;
      }
    if (hits > 1 && overlapping++ == 0) first_overlapping = module;
    if (hits == 0 && uncovered++ == 0) first_uncovered = module;
  }
  for (const Group& group : list)
    if (group.matched == 0)
      findings.push_back({"recipe.group-unmatched", Severity::warning, fmt::format("the targets of group '{}' match nothing", group.name),
                          "what it was meant to quantize was not", "mend the targets"});
  if (overlapping != 0)
    findings.push_back({"recipe.group-overlap", Severity::warning,
                        fmt::format("{} modules belong to several groups, the first is '{}'", overlapping, first_overlapping),
                        "which group wins depends on the loader", "make the targets exclusive"});
  if (uncovered != 0)
    findings.push_back({"recipe.uncovered", Severity::warning,
                        fmt::format("{} modules are in no group and not ignored, the first is '{}'", uncovered, first_uncovered),
                        "loaders guess how these are stored", "add them to ignore, or to a group"});
}

}  // namespace

void check_recipe(const Inventory& inventory, Findings& findings) {
  std::vector<Pattern> ignore;
  for (const char* key : {"ignore", "exclude_modules", "modules_to_not_convert", "ignored_layers"})
    if (inventory.quantization.contains(key))
      for (Pattern& pattern : patterns(inventory.quantization[key], findings)) ignore.push_back(std::move(pattern));
  const std::vector<std::string> modules = modules_of(inventory);
  check_drafters(inventory, ignore, findings);
  check_ignored(ignore, modules, findings);
  check_quantized_by_mistake(inventory, findings);
  check_groups(inventory, ignore, modules, findings);
}

}  // namespace planesmith
