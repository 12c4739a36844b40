// Drafter (MTP) layers: quantizers lose them, and recipes forget to ignore them.
#include <fmt/format.h>

#include <charconv>
#include <set>

#include "audit/pattern.h"
#include "checkpoint/tensor_name.h"

namespace planesmith {
namespace {

// The drafter that a tensor belongs to: "mtp.0" of "mtp.0.ffn.norm.weight",
// "model.layers.61" of "model.layers.61.norm.weight".
std::string drafter_of(const std::string& name) {
  const std::size_t mtp = name.find("mtp."), layers = name.find("layers.");
  const std::size_t start = mtp != std::string::npos ? mtp + 4 : layers != std::string::npos ? layers + 7 : 0;
  return name.substr(0, name.find('.', start));
}

// The number after "layers.".
std::optional<std::uint64_t> layer_of(const std::string& name) {
  const std::size_t at = name.find("layers.");
  std::uint64_t layer = 0;
  if (at == std::string::npos ||
      std::from_chars(name.data() + at + 7, name.data() + name.size(), layer).ec != std::errc())
    return std::nullopt;
  return layer;
}

// An entry for an ignore list that matches the drafter's modules.
std::string pattern_for(const std::string& drafter) {
  if (drafter.starts_with("mtp.")) return "re:^mtp.*";
  std::string escaped;
  for (const char c : drafter) escaped += c == '.' ? std::string("\\.") : std::string(1, c);
  return fmt::format("re:^{}\\..*", escaped);
}

// The number of drafter layers according to config.json, and the words for the key that says so; none: it
// does not say. num_nextn_predict_layers is 1 for any number of DSpark blocks (ENGINE.md section 7).
struct Count {
  const char* what;
  std::uint64_t number;
};
std::optional<Count> told_drafters(const Json& config, const std::set<std::string>& drafters) {
  if (const Json& targets = config_value(config, "dspark_target_layer_ids"); targets.is_array())
    return Count{"the length of dspark_target_layer_ids is", targets.size()};
  const Json& value = config_value(config, "num_nextn_predict_layers");
  if (!value.is_number_unsigned()) return std::nullopt;
  const bool blocks = drafters.size() > 1 && drafters.begin()->starts_with("mtp.");
  if (value == 1 && blocks) return std::nullopt;
  return Count{"num_nextn_predict_layers is", value.get<std::uint64_t>()};
}

}  // namespace

void check_drafters(const Inventory& inventory, Findings& findings) {
  const std::uint64_t layers = inventory.layers();
  Findings of_patterns;  // dropped: check_recipe reports them
  const std::vector<Pattern> ignore = ignored(inventory, of_patterns);
  const bool has_recipe = !ignore.empty() || inventory.quantization.contains("ignore") ||
                          inventory.quantization.contains("config_groups");
  std::set<std::string> drafters;
  Several unprotected, inside, beyond;
  for (const auto& [name, tensor] : inventory.tensors) {
    if (parse_tensor_name(name, layers, tensor.shape.size()).left_as != "MTP") continue;
    const std::optional<std::uint64_t> layer = layer_of(name);
    if (layer && *layer < layers && name.find("layers.") < name.find("mtp")) {
      inside.add(name);
      continue;
    }
    const std::string drafter = drafter_of(name);
    if (drafters.insert(drafter).second && layer && *layer >= layers && name.find("mtp") == std::string::npos)
      beyond.add(drafter);
    if (name.ends_with(".weight") && tensor.shape.size() == 2 && !quantized(tensor) &&
        !any_matches(ignore, name.substr(0, name.size() - 7)))
      unprotected.add(name);
  }
  const Json& value = config_value(inventory.config, "num_nextn_predict_layers");
  const std::uint64_t claimed = value.is_number_unsigned() ? value.get<std::uint64_t>() : 0;
  if (const std::optional<Count> told = told_drafters(inventory.config, drafters);
      told && told->number != drafters.size()) {
    const bool lost = drafters.size() < told->number;
    findings.push_back(
        {"mtp.count", lost && !drafters.empty() ? Severity::error : Severity::warning,
         fmt::format("{} {}, the shards hold {} drafter layers", told->what, told->number, drafters.size()),
         lost ? "speculative decoding fails to load, or runs with uninitialized weights"
              : "loaders that go by the number leave the others unused",
         lost ? "add the drafter's tensors, or set the number to what is there"
              : "set the number to what is there, if the engine is to use them"});
  }
  if (has_recipe && unprotected)
    findings.push_back(
        {"mtp.not-ignored", Severity::error,
         fmt::format(
             "{} drafter weights are not quantized and nothing in quantization_config.ignore matches them, "
             "the first is '{}'",
             unprotected.count, unprotected.first),
         "loaders expect quantized weights there and fail, or read garbage",
         fmt::format("add \"{}\" to ignore", pattern_for(drafter_of(unprotected.first)))});
  if (inside)
    findings.push_back(
        {"serving.drafter-names", Severity::warning,
         fmt::format("{} tensors of main layers have \"mtp\" in their names, the first is '{}'", inside.count,
                     inside.first),
         "the engine takes them for a drafter's and makes no planes of them",
         "rename them, unless they belong to a drafter"});
  if (beyond && drafters.size() > claimed)
    findings.push_back(
        {"serving.drafter-names", Severity::warning,
         fmt::format("{} layers are numbered from num_hidden_layers ({}) on, the first is '{}'; "
                     "num_nextn_predict_layers is {}",
                     beyond.count, layers, beyond.first, value.is_null() ? "not given" : value.dump()),
         "the engine takes them for drafters and makes no planes of them",
         "correct num_hidden_layers or num_nextn_predict_layers"});
}

}  // namespace planesmith
