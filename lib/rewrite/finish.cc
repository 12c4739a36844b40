#include "rewrite/finish.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"
#include "base/json.h"
#include "checkpoint/recipe.h"
#include "checkpoint/side_files.h"
#include "checkpoint/tensor_name.h"
#include "rewrite/recipe_text.h"

namespace planesmith {
namespace {

constexpr std::string_view kWeight = ".weight", kTokenizer = "tokenizer.json";
constexpr char kDrafterShard[] = "model-drafters.safetensors";

std::uint64_t layers_of(const Checkpoint& checkpoint) {
  const Json& value = config_value(checkpoint.config(), "num_hidden_layers");
  return value.is_number_unsigned() ? value.get<std::uint64_t>() : 0;
}

std::string module_of(const std::string& name) {
  return name.substr(0, name.rfind('.'));
}

// "mtp" of "mtp.0.norm.weight", "model.layers.61" of "model.layers.61.norm.weight".
std::string drafter_of(const std::string& name) {
  if (const std::size_t mtp = name.find("mtp.");
      mtp != std::string::npos && (mtp == 0 || name[mtp - 1] == '.'))
    return name.substr(0, mtp + 3);
  const std::size_t layers = name.find("layers.");
  return layers == std::string::npos ? module_of(name) : name.substr(0, name.find('.', layers + 7));
}

// The pattern by which a recipe of this kind excludes a module and everything below it.
std::string pattern_for(const QuantRecipe& recipe, const std::string& drafter) {
  if (recipe.method == "modelopt") return drafter + "*";
  if (recipe.method == "fp8") return drafter;
  std::string escaped;
  for (const char c : drafter) escaped += c == '.' ? std::string("\\.") : std::string(1, c);
  return drafter == "mtp" ? "re:^mtp.*" : fmt::format("re:^{}\\..*", escaped);
}

class Finish {
 public:
  Finish(const Context& context, const std::string& source, const RewriteOptions& options)
      : context_(context),
        options_(options),
        here_(Checkpoint::open(context, options.source)),
        there_(Checkpoint::open(context, source)),
        recipe_(read_recipe(config_value(here_.config(), "quantization_config"))),
        shards_(here_),
        config_(read_text(context.os, join(here_.directory(), kConfigName), kMostConfigBytes),
                join(here_.directory(), kConfigName)) {}

  FinishResult run() {
    take_drafters();
    list_drafters();
    count_drafters();
    take_files();
    clear_tokenizer();
    if (config_.text() != read_text(context_.os, join(here_.directory(), kConfigName), kMostConfigBytes))
      what_.texts.emplace(kConfigName, config_.text());
    check_index();
    what_.build = {{"command", "finish"}, {"steps", result_.steps}};
    what_.from = &there_;
    result_.files = rewrite(context_, here_, shards_, what_, options_);
    return std::move(result_);
  }

 private:
  void step(std::string text) { result_.steps.push_back(std::move(text)); }

  bool is_drafter(const Tensor& tensor, const Checkpoint& of) const {
    return parse_tensor_name(tensor.name, layers_of(of), tensor.shape.size()).left_as == "MTP";
  }

  void take_drafters() {
    std::set<std::string> modules;  // drafter modules of the quantized checkpoint, which may be quantized too
    for (const Tensor& tensor : here_.tensors())
      if (is_drafter(tensor, here_)) {
        modules.insert(module_of(tensor.name));
        drafters_.insert(drafter_of(tensor.name));
        if (tensor.name.ends_with(kWeight) && tensor.shape.size() >= 2 && bits(tensor.dtype) >= 16)
          floats_.insert(tensor.name);
      }
    std::uint64_t count = 0, bytes = 0;
    for (const Tensor& tensor : there_.tensors()) {
      if (!is_drafter(tensor, there_) || here_.find(tensor.name) != nullptr ||
          modules.contains(module_of(tensor.name)))
        continue;
      shards_.add(kDrafterShard, std::make_unique<CopyJob>(NewTensor{tensor.name, tensor.dtype, tensor.shape,
                                                                     tensor.dtype_text, tensor.size},
                                                           place_of(there_, tensor)));
      drafters_.insert(drafter_of(tensor.name));
      if (tensor.name.ends_with(kWeight) && tensor.shape.size() >= 2) floats_.insert(tensor.name);
      ++count;
      bytes += tensor.size;
    }
    if (count != 0)
      step(fmt::format(
          "{} drafter (MTP) tensors, {}, are taken over from the source into a shard of their own", count,
          exact_size(bytes)));
  }

  // Adds the drafters to every list of excluded modules that the recipe has.
  void list_drafters() {
    std::set<std::string> open;
    for (const std::string& name : floats_)
      if (!any_matches(recipe_.ignore, name.substr(0, name.size() - kWeight.size())))
        open.insert(drafter_of(name));
    if (open.empty() || recipe_.method.empty()) return;
    const bool nested = !config_.value({"text_config", "quantization_config"}).is_null();
    OrderedJson quantization = nested ? config_.value({"text_config", "quantization_config"})
                                      : config_.value({"quantization_config"});
    const char* key = quantization.contains("ignore") || recipe_.method == "compressed-tensors" ||
                              recipe_.method == "modelopt"
                          ? "ignore"
                      : quantization.contains("exclude") ? "exclude"
                                                         : "modules_to_not_convert";
    std::vector<std::string> patterns;
    for (const std::string& drafter : open) patterns.push_back(pattern_for(recipe_, drafter));
    const bool only_modelopt = quantization.is_null();  // its file below is the recipe
    for (const std::string& pattern : patterns)
      step(only_modelopt ? fmt::format("\"{}\" is added to exclude_modules of {}", pattern, kModeloptConfig)
                         : fmt::format("\"{}\" is added to {} of quantization_config", pattern, key));
    if (!only_modelopt) {
      OrderedJson& list = quantization[key];
      if (!list.is_array()) list = OrderedJson::array();
      for (const std::string& pattern : patterns) list.push_back(pattern);
      if (nested)
        config_.set({"text_config", "quantization_config"}, quantization);
      else
        config_.set({"quantization_config"}, quantization);
    }

    const std::string path = join(here_.directory(), kModeloptConfig);
    if (!exists(context_.os, path)) return;
    JsonText file(read_text(context_.os, path, kMostConfigBytes), path);
    OrderedJson excluded = file.value({"quantization", "exclude_modules"});
    if (!excluded.is_array()) excluded = OrderedJson::array();
    for (const std::string& pattern : patterns) excluded.push_back(pattern);
    file.set({"quantization", "exclude_modules"}, excluded);
    what_.texts.emplace(kModeloptConfig, file.text());
  }

  // Takes the number from the source; where the source has none, the quantized checkpoint's stays.
  void count_drafters() {
    constexpr std::string_view kKey = "num_nextn_predict_layers";
    const Json& here = config_value(here_.config(), kKey);
    const Json& there = config_value(there_.config(), kKey);
    if (!there.is_number_unsigned() || here == there || (drafters_.empty() && there != 0)) return;
    if (!config_.value({"text_config", "num_hidden_layers"}).is_null())
      config_.set({"text_config", kKey}, there.get<std::uint64_t>());
    else
      config_.set({kKey}, there.get<std::uint64_t>());
    step(fmt::format("num_nextn_predict_layers is {}, as in the source, instead of {}", there.dump(),
                     here.is_null() ? "none" : here.dump()));
  }

  void take_files() {
    for (const std::string& name : lost_side_files(context_.os, here_.directory(), there_.directory())) {
      what_.taken.emplace(name, join(there_.directory(), name));
      step(fmt::format("{} is taken over from the source", name));
    }
  }

  void clear_tokenizer() {
    const auto taken = what_.taken.find(std::string(kTokenizer));
    const std::string path = taken != what_.taken.end() ? taken->second : join(here_.directory(), kTokenizer);
    if (!exists(context_.os, path)) return;
    // A vocabulary has up to 20 MiB and takes ten times as much memory while it is parsed.
    JsonText tokenizer(read_text(context_.os, path, context_.memory / 8), path, context_.memory / 2);
    bool changed = false;
    for (const std::string_view key : {"truncation", "padding"})
      if (!tokenizer.value({key}).is_null()) {
        tokenizer.set({key}, nullptr);
        step(fmt::format("{} of tokenizer.json is cleared", key));
        changed = true;
      }
    if (!changed) return;
    what_.taken.erase(std::string(kTokenizer));
    what_.texts.emplace(kTokenizer, tokenizer.text());
  }

  void check_index() {
    const std::string path = join(here_.directory(), kIndexName);
    std::uint64_t total = 0;
    for (const Tensor& tensor : here_.tensors()) total += tensor.size;
    if (!exists(context_.os, path)) {
      step("an index is written");
      return;
    }
    const Json index = read_json(context_.os, path, context_.memory / 5, context_.memory / 5 * 2);
    const auto metadata = index.find("metadata");
    if (metadata == index.end() || !metadata->is_object() || !metadata->contains("total_size") ||
        (*metadata)["total_size"] != total)
      step("the index is rewritten: its total_size was not that of the tensors");
  }

  const Context& context_;
  const RewriteOptions& options_;
  const Checkpoint here_, there_;
  const QuantRecipe recipe_;
  NewShards shards_;
  JsonText config_;
  Rewrite what_;
  std::set<std::string> drafters_, floats_;  // drafters of the result; names of their float weights
  FinishResult result_;
};

}  // namespace

FinishResult finish(const Context& context, const std::string& source, const RewriteOptions& options) {
  return Finish(context, source, options).run();
}

}  // namespace planesmith
