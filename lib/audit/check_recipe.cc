// What quantizers silently lose, and recipes whose patterns match something else than intended.
#include <fmt/format.h>

#include <algorithm>

#include "audit/pattern.h"
#include "checkpoint/checkpoint.h"
#include "checkpoint/tensor_name.h"

namespace planesmith {
namespace {

void check_ignored(const Inventory& inventory, const std::vector<Pattern>& ignore,
                   std::vector<std::string> modules, Findings& findings) {
  // A head tied to the embedding is a module without a tensor of its own.
  if (config_value(inventory.config, "tie_word_embeddings") == true) modules.push_back("lm_head");
  Several unmatched;
  for (const Pattern& pattern : ignore)
    if (!pattern.is_class() && std::none_of(modules.begin(), modules.end(),
                                            [&](const std::string& m) { return pattern.matches(m); }))
      unmatched.add(pattern.text());
  if (unmatched)
    findings.push_back(
        {"recipe.ignore-unmatched", Severity::warning,
         fmt::format("{} of {} entries that exclude modules match no tensor, the first is '{}'",
                     unmatched.count, ignore.size(), unmatched.first),
         "a misspelt entry protects nothing; or what it protected is lost", "fix or drop the entry"});
}

void check_quantized_by_mistake(const Inventory& inventory, Findings& findings) {
  for (const auto& [name, tensor] : inventory.tensors) {
    const std::size_t dot = name.rfind('.');
    const std::string_view word =
        dot == std::string::npos ? std::string_view() : std::string_view(name).substr(dot + 1);
    if (!(word == "weight" && quantized(tensor)) && word != "weight_packed" && word != "qweight") continue;
    const std::string_view kind = parse_tensor_name(name, inventory.layers(), tensor.shape.size()).left_as;
    if (kind != "router" && kind != "embeddings" && kind != "head") continue;
    findings.push_back({"recipe.sensitive-quantized", Severity::error,
                        fmt::format("'{}' ({}) is {}", name, kind, planesmith::name(tensor.dtype)),
                        "routers, embeddings and head lose far more by quantization than they save",
                        "exclude them in the recipe and quantize again"});
    return;  // one example is enough
  }
}

struct Group {
  std::string name;
  std::vector<Pattern> targets;
  std::vector<bool> used;  // by target

  // Whether a target matches; marks all that do as used.
  bool matches(const std::string& module) {
    bool any = false;
    for (std::size_t i = 0; i < targets.size(); ++i)
      if (targets[i].text() == "Linear" || targets[i].matches(module)) any = used[i] = true;
    return any;
  }
};

std::vector<Group> groups_of(const Inventory& inventory, Findings& findings) {
  std::vector<Group> out;
  const auto groups = inventory.quantization.find("config_groups");
  if (groups == inventory.quantization.end() || !groups->is_object()) return out;
  for (const auto& [name, group] : groups->items()) {
    if (!group.is_object()) continue;
    Group parsed{name, {}, {}};
    if (group.contains("targets")) parsed.targets = patterns(group["targets"], findings);
    parsed.used.resize(parsed.targets.size());
    out.push_back(std::move(parsed));
  }
  return out;
}

// Recipes do not have to cover embeddings, which are not Linear modules.
bool is_embedding(const Inventory& inventory, const Tensor& weight) {
  return parse_tensor_name(weight.name, inventory.layers(), weight.shape.size()).left_as == "embeddings";
}

void check_groups(const Inventory& inventory, const std::vector<Pattern>& ignore,
                  const std::vector<std::string>& modules, Findings& findings) {
  std::vector<Group> groups = groups_of(inventory, findings);
  if (groups.empty()) return;
  Several overlapping, uncovered, unmatched;
  for (const std::string& module : modules) {
    const Tensor* weight = inventory.find(module + ".weight");
    if (weight == nullptr) weight = inventory.find(module + ".weight_packed");
    if (weight == nullptr || weight->shape.size() != 2 || any_matches(ignore, module)) continue;
    const auto hits =
        std::count_if(groups.begin(), groups.end(), [&](Group& group) { return group.matches(module); });
    if (hits > 1) overlapping.add(module);
    if (hits == 0 && !is_embedding(inventory, *weight)) uncovered.add(module);
  }
  bool classes = false;  // targets of classes other than Linear, which may cover any module
  for (const Group& group : groups)
    for (std::size_t i = 0; i < group.targets.size(); ++i) {
      const bool other_class = group.targets[i].is_class() && group.targets[i].text() != "Linear";
      classes |= other_class;
      if (!group.used[i] && !other_class)
        unmatched.add(fmt::format("{}' of group '{}", group.targets[i].text(), group.name));
    }
  if (unmatched)
    findings.push_back({"recipe.group-unmatched", Severity::warning,
                        fmt::format("{} targets of config_groups match nothing, the first is '{}'",
                                    unmatched.count, unmatched.first),
                        "what it was meant to quantize was not", "fix the targets"});
  if (overlapping)
    findings.push_back({"recipe.group-overlap", Severity::warning,
                        fmt::format("{} modules belong to several groups, the first is '{}'",
                                    overlapping.count, overlapping.first),
                        "which group wins depends on the loader", "make the targets exclusive"});
  // With a list of quantized layers, the layers that it lacks are not quantized.
  if (uncovered && !classes && !inventory.quantization.contains("quantized_layers"))
    findings.push_back({"recipe.uncovered", Severity::warning,
                        fmt::format("{} modules are in no group and not ignored, the first is '{}'",
                                    uncovered.count, uncovered.first),
                        "loaders guess how these are stored", "add them to ignore, or to a group"});
}

// The engine serves NVFP4 experts from planes, which ignore a recipe's activation settings.
void check_activations(const Inventory& inventory, Findings& findings) {
  const auto find = [&](std::string what) {
    findings.push_back({"recipe.activations", Severity::warning, std::move(what),
                        "the engine serves such experts from planes and ignores the activation settings",
                        "expect other outputs than with a runtime that honours them"});
  };
  if (const auto groups = inventory.quantization.find("config_groups");
      groups != inventory.quantization.end() && groups->is_object())
    for (const auto& [name, group] : groups->items()) {
      if (!group.is_object()) continue;
      const auto bits = [&settings = group](const char* key) -> std::optional<std::int64_t> {
        if (!settings.contains(key) || !settings[key].is_object() || !settings[key].contains("num_bits"))
          return std::nullopt;
        const Json& value = settings[key]["num_bits"];
        return value.is_number_integer() ? std::optional(value.get<std::int64_t>()) : std::nullopt;
      };
      const bool fp4 =
          bits("weights") == 4 && group["weights"].contains("type") && group["weights"]["type"] == "float";
      if (const auto activations = bits("input_activations"); fp4 && activations && activations != 4)
        find(fmt::format("group '{}' has 4-bit weights with input activations of {} bits", name,
                         *activations));
    }
  for (const Json* recipe : {&inventory.quantization, &inventory.modelopt}) {
    if (!recipe->contains("quant_algo") || !(*recipe)["quant_algo"].is_string()) continue;
    const std::string algorithm = (*recipe)["quant_algo"].get<std::string>();
    // W4A16 has no activation settings.
    if (algorithm.find("NVFP4") == std::string::npos || algorithm == "NVFP4" ||
        algorithm.find("A16") != std::string::npos)
      continue;
    find(fmt::format("quant_algo is {}", algorithm));
    return;
  }
}

}  // namespace

void check_recipe(const Inventory& inventory, Findings& findings) {
  const std::vector<Pattern> ignore = ignored(inventory, findings);
  const std::vector<std::string> modules = modules_of(inventory);
  check_ignored(inventory, ignore, modules, findings);
  check_quantized_by_mistake(inventory, findings);
  check_groups(inventory, ignore, modules, findings);
  check_activations(inventory, findings);
}

}  // namespace planesmith
