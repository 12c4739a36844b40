#include "serve/recipe.h"

#include <fmt/format.h>
#include <yaml-cpp/yaml.h>

#include <cmath>

#include "base/error.h"
#include "base/size.h"

namespace planesmith {
namespace {

constexpr std::string_view kCache = "{planes_cache}";

class Parser {
 public:
  Parser(const std::string& path, const std::string& planes_cache)
      : path_(path), planes_cache_(planes_cache) {}

  Recipe run(const YAML::Node& root) {
    if (!root.IsMap()) refuse("is not a recipe: a mapping with env, serve_args and requires was expected");
    if (!root["env"] && !root["serve_args"]) refuse("is not a recipe: it has neither env nor serve_args");
    if (const YAML::Node env = root["env"]; given(env)) environment(env);
    if (const YAML::Node arguments = root["serve_args"]; given(arguments)) serve_args(arguments);
    if (const YAML::Node needs = root["requires"]; given(needs)) {
      if (!needs.IsMap()) refuse("\"requires\" is not a mapping");
      if (const YAML::Node gpus = needs["gpus"]; given(gpus))
        recipe_.gpus = static_cast<std::uint64_t>(number(gpus, "gpus"));
      if (const YAML::Node memory = needs["vram_gb"]; given(memory))
        recipe_.gpu_bytes = static_cast<std::uint64_t>(number(memory, "vram_gb") * static_cast<double>(kGiB));
    }
    return std::move(recipe_);
  }

 private:
  static bool given(const YAML::Node& node) { return node && !node.IsNull(); }
  [[noreturn]] void refuse(std::string reason) const { throw Error(path_, std::move(reason)); }

  double number(const YAML::Node& node, const char* key) const {
    double value = 0;
    if (!node.IsScalar() || !YAML::convert<double>::decode(node, value) || !std::isfinite(value) ||
        value < 0 || value > 1e9)
      refuse(fmt::format("\"{}\" is not a number", key));
    return value;
  }

  // The text with {planes_cache} replaced; none: the path is needed but not known.
  std::optional<std::string> resolved(std::string text) {
    for (std::size_t at = 0; (at = text.find(kCache, at)) != text.npos; at += planes_cache_.size()) {
      recipe_.names_cache = true;
      if (planes_cache_.empty()) return std::nullopt;
      text.replace(at, kCache.size(), planes_cache_);
    }
    return text;
  }

  void environment(const YAML::Node& env) {
    if (!env.IsMap()) refuse("\"env\" is not a mapping of names to values");
    for (const auto& entry : env) {
      const auto name = entry.first.as<std::string>();
      if (!entry.second.IsScalar() && !entry.second.IsNull())
        refuse(fmt::format("the value of {} in \"env\" is not a plain value", name));
      const std::optional<std::string> value = resolved(entry.second.IsNull() ? "" : entry.second.Scalar());
      if (value)
        recipe_.environment[name] = *value;
      else
        recipe_.left_out.push_back(name);
    }
  }

  // Entries are "--flag" or "--flag value"; everything after the first space is the value.
  void serve_args(const YAML::Node& arguments) {
    if (!arguments.IsSequence()) refuse("\"serve_args\" is not a list");
    for (const auto& entry : arguments) {
      if (!entry.IsScalar()) refuse("\"serve_args\" has an entry that is not text");
      const std::optional<std::string> text = resolved(entry.Scalar());
      if (!text) continue;
      const std::size_t space = text->find(' ');
      recipe_.arguments.push_back(text->substr(0, space));
      if (space != text->npos) recipe_.arguments.push_back(text->substr(space + 1));
    }
  }

  const std::string& path_;
  const std::string& planes_cache_;
  Recipe recipe_;
};

}  // namespace

Recipe parse_recipe(const std::string& text, const std::string& path, const std::string& planes_cache) {
  try {
    return Parser(path, planes_cache).run(YAML::Load(text));
  } catch (const YAML::Exception& error) {
    throw Error(path, fmt::format("cannot be read as YAML: line {}, {}", error.mark.line + 1, error.msg));
  }
}

std::optional<std::string> argument_value(const std::vector<std::string>& arguments,
                                          std::initializer_list<std::string_view> options) {
  std::optional<std::string> value;
  for (std::size_t i = 0; i < arguments.size(); ++i)
    for (const std::string_view option : options) {
      if (arguments[i] == option && i + 1 < arguments.size()) value = arguments[i + 1];
      if (arguments[i].starts_with(option) && arguments[i].substr(option.size(), 1) == "=")
        value = arguments[i].substr(option.size() + 1);
    }
  return value;
}

}  // namespace planesmith
