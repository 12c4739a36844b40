#include "checkpoint/recipe.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/file.h"
#include "checkpoint/checkpoint.h"
#include "format/slice.h"

namespace planesmith {
namespace {

constexpr std::string_view kQuantization = "quantization_config";

constexpr FormatRow kFormats[] = {
    {"modelopt", "NVFP4", Scheme::nvfp4, "NVFP4 as modelopt writes it"},
    {"modelopt", "W4A16_NVFP4", Scheme::nvfp4, "weight-only NVFP4 as modelopt writes it"},
    {"modelopt", "W4A8_NVFP4_FP8", Scheme::unknown, "FP4 for FP8 activations, in modelopt's names"},
    {"modelopt", "W4A8_MXFP4_FP8", Scheme::mxfp4, "MXFP4 for FP8 activations, in modelopt's names"},
    {"modelopt", "NVFP4_AWQ", Scheme::unknown, "NVFP4 with AWQ's pre-scales"},
    {"modelopt", "MXFP4", Scheme::mxfp4, "MXFP4 in modelopt's names"},
    {"modelopt", "W4A16_MXFP4", Scheme::mxfp4, "weight-only MXFP4 in modelopt's names"},
    {"modelopt", "MXFP8", Scheme::mxfp8, "MXFP8"},
    {"modelopt", "FP8", Scheme::fp8_tensor, "FP8 with one scale for a tensor"},
    {"modelopt", "FP8_PER_CHANNEL_PER_TOKEN", Scheme::fp8_channel, "FP8 with a scale for each row"},
    {"modelopt", "FP8_PB_WO", Scheme::fp8_block, "FP8 in blocks, in modelopt's names"},
    {"modelopt", "W4A8_AWQ", Scheme::integer, "int4 with AWQ's pre-scales"},
    {"modelopt", "W4A16_AWQ", Scheme::integer, "int4 with AWQ's pre-scales"},
    {"modelopt", "INT4_AWQ", Scheme::integer, "int4 with AWQ's pre-scales"},
    {"modelopt", "INT8_SQ", Scheme::integer, "int8 with SmoothQuant's scales"},
    {"modelopt", "W8A8_SQ_PER_CHANNEL", Scheme::integer, "int8 with SmoothQuant's scales"},
    {"modelopt", "MIXED_PRECISION", Scheme::unknown, "a mixture in modelopt's layout"},
    {"modelopt", "", Scheme::unknown, "a format of modelopt"},
    {"compressed-tensors", "nvfp4-pack-quantized", Scheme::nvfp4, "NVFP4 in llm-compressor's layout"},
    {"compressed-tensors", "mxfp4-pack-quantized", Scheme::mxfp4, "MXFP4 in llm-compressor's layout"},
    {"compressed-tensors", "mxfp8-quantized", Scheme::mxfp8, "MXFP8"},
    {"compressed-tensors", "float-quantized", Scheme::unknown, "FP8 in llm-compressor's layout"},
    {"compressed-tensors", "naive-quantized", Scheme::unknown,
     "plain quantized numbers in llm-compressor's layout"},
    {"compressed-tensors", "pack-quantized", Scheme::integer, "packed integers (int4 or int8)"},
    {"compressed-tensors", "int-quantized", Scheme::integer, "int8"},
    {"compressed-tensors", "marlin-24", Scheme::integer, "sparse packed integers"},
    {"compressed-tensors", "mixed-precision", Scheme::unknown, "several formats in llm-compressor's layouts"},
    {"compressed-tensors", "", Scheme::unknown, "a format of llm-compressor"},
    {"fp8", "", Scheme::fp8_block, "FP8 in blocks"},
    {"deepseek_v4_fp8", "", Scheme::fp8_block, "DeepSeek-V4's FP8 and MXFP4"},
    {"fbgemm_fp8", "", Scheme::fp8_channel, "FP8 with a scale for each row"},
    {"quark", "mxfp4", Scheme::mxfp4, "MXFP4 in AMD Quark's names"},
    {"quark", "", Scheme::unknown, "a format of AMD Quark"},
    {"mxfp4", "", Scheme::mxfp4, "MXFP4 as gpt-oss has it"},
    {"auto-round", "nvfp4", Scheme::nvfp4, "NVFP4 in AutoRound's names"},
    {"auto-round", "mxfp4", Scheme::mxfp4, "MXFP4 in AutoRound's names"},
    {"auto-round", "mxfp8", Scheme::mxfp8, "MXFP8"},
    {"auto-round", "fp8", Scheme::unknown, "FP8 by AutoRound"},
    {"auto-round", "", Scheme::integer, "integers by AutoRound"},
    {"gptq", "", Scheme::integer, "GPTQ's packed integers"},
    {"gptqmodel", "", Scheme::integer, "GPTQ's packed integers"},
    {"awq", "", Scheme::integer, "AWQ's packed integers"},
    {"bitsandbytes", "", Scheme::integer, "bitsandbytes' blocks"},
    {"hqq", "", Scheme::integer, "HQQ's packed integers"},
    {"quanto", "", Scheme::integer, "quanto's integers"},
    {"torchao", "", Scheme::unknown, "a format of torchao"},
    {"aqlm", "", Scheme::integer, "AQLM's codebooks"},
    {"vptq", "", Scheme::integer, "VPTQ's codebooks"},
    {"eetq", "", Scheme::integer, "EETQ's int8"},
    {"exl2", "", Scheme::integer, "ExLlamaV2's packed integers"},
    {"exl3", "", Scheme::integer, "ExLlamaV3's trellises"},
    {"fp_quant", "", Scheme::unknown, "FP-Quant's FP4 of rotated weights"},
    {"w4afp8", "", Scheme::integer, "int4 for FP8 activations"},
};

std::string upper(std::string text) {
  for (char& c : text) c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  return text;
}

const Json& member(const Json& object, std::string_view key) {
  static const Json absent;
  if (!object.is_object()) return absent;
  const auto at = object.find(key);
  return at == object.end() ? absent : *at;
}
std::string text(const Json& object, std::string_view key) {
  const Json& value = member(object, key);
  return value.is_string() ? value.get<std::string>() : "";
}
std::uint64_t number(const Json& value) {
  return value.is_number_unsigned() ? value.get<std::uint64_t>() : 0;
}

void add_patterns(const Json& list, std::vector<Pattern>& to) {
  if (!list.is_array()) return;
  for (const Json& entry : list)
    if (entry.is_string())
      if (Pattern pattern(entry.get<std::string>()); pattern.sound()) to.push_back(std::move(pattern));
}

void set_block(const Json& block, QuantGroup& group) {
  if (!block.is_array() || block.size() != 2) return;
  group.block_rows = number(block[0]);
  group.block_cols = number(block[1]);
}

// The scheme that compressed-tensors describes by numbers: type, bits, strategy and group size.
Scheme scheme_of_weights(const Json& weights) {
  const std::uint64_t bits = number(member(weights, "num_bits")),
                      group = number(member(weights, "group_size"));
  const std::string strategy = text(weights, "strategy");
  if (text(weights, "type") != "float")
    return text(weights, "type") == "int" ? Scheme::integer : Scheme::unknown;
  if (bits == 4)
    return group == kNvfp4Group ? Scheme::nvfp4 : group == kMxfp4Group ? Scheme::mxfp4 : Scheme::unknown;
  if (bits != 8) return Scheme::unknown;
  if (strategy == "block") return Scheme::fp8_block;
  if (strategy == "channel") return Scheme::fp8_channel;
  if (strategy == "tensor") return Scheme::fp8_tensor;
  return group == kMxfp4Group ? Scheme::mxfp8 : Scheme::unknown;
}

void set_scheme(std::string_view method, QuantGroup& group) {
  const FormatRow* row = find_format(method, group.format);
  if (row != nullptr && row->scheme != Scheme::unknown) group.scheme = row->scheme;
}

void read_compressed_tensors(const Json& config, const std::vector<std::string>& group_order,
                             QuantRecipe& recipe) {
  recipe.format = text(config, "format");
  const Json& groups = member(config, "config_groups");
  if (!groups.is_object()) return;
  for (const auto& [name, json] : groups.items()) {
    QuantGroup group;
    group.name = name;
    group.format = text(json, "format");
    if (group.format.empty()) group.format = recipe.format;
    const Json& weights = member(json, "weights");
    group.scheme = scheme_of_weights(weights);
    set_scheme(recipe.method, group);
    set_block(member(weights, "block_structure"), group);
    group.activations = member(json, "input_activations").is_object();
    add_patterns(member(json, "targets"), group.targets);
    recipe.groups.push_back(std::move(group));
  }
  const auto place = [&](const QuantGroup& group) {
    return std::find(group_order.begin(), group_order.end(), group.name) - group_order.begin();
  };
  std::stable_sort(recipe.groups.begin(), recipe.groups.end(),
                   [&](const QuantGroup& a, const QuantGroup& b) { return place(a) < place(b); });
  const Json& cache = member(config, "kv_cache_scheme");
  if (number(member(cache, "num_bits")) == 8 && text(cache, "type") == "float") recipe.kv_cache = "FP8";
}

QuantGroup modelopt_group(const std::string& algorithm) {
  QuantGroup group;
  group.format = upper(algorithm);
  set_scheme("modelopt", group);
  group.activations = group.format.find("A16") == std::string::npos;
  return group;
}

void read_modelopt(const Json& config, QuantRecipe& recipe) {
  recipe.format = upper(text(config, "quant_algo"));
  recipe.kv_cache = upper(text(config, "kv_cache_quant_algo"));
  if (text(member(config, "kv_cache_scheme"), "type") == "float") recipe.kv_cache = "FP8";
  const Json& layers = member(config, "quantized_layers");
  if (layers.is_object())
    for (const auto& [name, json] : layers.items())
      recipe.layers.emplace(name, modelopt_group(text(json, "quant_algo")));
  if (layers.is_object()) return;
  QuantGroup group = modelopt_group(recipe.format);
  group.targets.emplace_back("Linear");
  recipe.groups.push_back(std::move(group));
}

void read_quark(const Json& config, QuantRecipe& recipe) {
  const Json& weight = member(member(config, "global_quant_config"), "weight");
  QuantGroup group;
  if (text(weight, "dtype") == "fp4" && number(member(weight, "group_size")) == kMxfp4Group)
    group.format = "mxfp4";
  recipe.format = group.format;
  set_scheme(recipe.method, group);
  group.activations = member(member(config, "global_quant_config"), "input_tensors").is_object();
  group.targets.emplace_back("Linear");
  recipe.groups.push_back(std::move(group));
  add_patterns(member(config, "exclude"), recipe.ignore);
}

void read_auto_round(const Json& config, QuantRecipe& recipe) {
  QuantGroup group;
  const std::string type = text(config, "data_type");
  const std::uint64_t bits = number(member(config, "bits")), act_bits = number(member(config, "act_bits"));
  if (bits == 4)
    group.format = type.starts_with("mx_fp") ? "mxfp4" : type.starts_with("nv_fp") ? "nvfp4" : "";
  if (bits == 8) group.format = type.starts_with("mx_fp") ? "mxfp8" : type.starts_with("fp") ? "fp8" : "";
  recipe.format = group.format;
  set_scheme(recipe.method, group);
  if (group.format == "fp8") {
    set_block(member(config, "group_size"), group);
    if (group.block_rows != 0) group.scheme = Scheme::fp8_block;
  }
  group.activations = act_bits != 0 && act_bits <= 8;
  group.targets.emplace_back("Linear");
  recipe.groups.push_back(std::move(group));
}

}  // namespace

const FormatRow* find_format(std::string_view method, std::string_view format) {
  const FormatRow* of_method = nullptr;
  for (const FormatRow& row : kFormats)
    if (row.method == method) {
      if (row.format == format) return &row;
      if (row.format.empty()) of_method = &row;
    }
  return of_method;
}

bool may_be_served(std::string_view method) {
  return std::any_of(std::begin(kFormats), std::end(kFormats), [&](const FormatRow& row) {
    return row.method == method &&
           (row.scheme == Scheme::nvfp4 || row.scheme == Scheme::mxfp4 || row.scheme == Scheme::fp8_block);
  });
}

bool QuantRecipe::ignores(const std::string& module) const {
  const bool exact = method == "compressed-tensors";
  return std::any_of(ignore.begin(), ignore.end(), [&](const Pattern& pattern) {
    return exact ? pattern.matches_exactly(module) : pattern.matches(module);
  });
}

const QuantGroup* QuantRecipe::last_with(const Pattern& target) const {
  const auto has = [&](const QuantGroup& group) {
    return std::any_of(group.targets.begin(), group.targets.end(),
                       [&](const Pattern& other) { return other.text() == target.text(); });
  };
  return &*std::find_if(groups.rbegin(), groups.rend(), has);
}

const QuantGroup* QuantRecipe::group_of(const std::string& module) const {
  if (ignores(module)) return nullptr;
  const bool exact = method == "compressed-tensors";
  // The module itself, or the nearest one above it that is listed.
  for (std::string_view part = module; !layers.empty() && !part.empty();) {
    if (const auto at = layers.find(part); at != layers.end()) return &at->second;
    const std::size_t dot = part.rfind('.');
    part = part.substr(0, dot == part.npos ? 0 : dot);
  }
  for (const QuantGroup& group : groups)
    for (const Pattern& target : group.targets)
      if (!target.is_class() && (exact ? target.matches_exactly(module) : target.matches(module)))
        return last_with(target);
  for (const QuantGroup& group : groups)
    for (const Pattern& target : group.targets)
      if (target.text() == "Linear") return last_with(target);
  return nullptr;
}

std::string QuantRecipe::title() const {
  return format.empty() ? method : method + " " + format;
}

Json with_modelopt(Json config, const Json& quantization) {
  if (!config_value(config, kQuantization).is_null() || text(quantization, "quant_algo").empty())
    return config;
  Json& copy = config[std::string(kQuantization)] = quantization;
  copy["quant_method"] = "modelopt";
  return config;
}

QuantRecipe read_recipe(const Json& quantization, const std::vector<std::string>& group_order) {
  QuantRecipe recipe;
  recipe.method = text(quantization, "quant_method");
  if (recipe.method.empty()) {
    if (!text(quantization, "quant_algo").empty())
      recipe.method = "modelopt";
    else if (member(quantization, "config_groups").is_object())
      recipe.method = "compressed-tensors";
    else if (member(quantization, "weight_block_size").is_array())
      recipe.method = "fp8";
  }
  if (recipe.method.starts_with("modelopt")) recipe.method = "modelopt";  // modelopt_fp4, modelopt_mixed
  for (const char* key : {"ignore", "exclude_modules", "modules_to_not_convert", "ignored_layers"})
    add_patterns(member(quantization, key), recipe.ignore);
  if (recipe.method == "compressed-tensors") {
    read_compressed_tensors(quantization, group_order, recipe);
  } else if (recipe.method == "modelopt") {
    read_modelopt(quantization, recipe);
  } else if (recipe.method == "quark") {
    read_quark(quantization, recipe);
  } else if (recipe.method == "auto-round") {
    read_auto_round(quantization, recipe);
  } else if (!recipe.method.empty()) {
    QuantGroup group;
    set_scheme(recipe.method, group);
    if (recipe.method == "fp8") {
      set_block(member(quantization, "weight_block_size"), group);
      if (group.block_rows == 0) group.scheme = Scheme::fp8_tensor;
      group.activations = true;
    }
    group.targets.emplace_back("Linear");
    recipe.groups.push_back(std::move(group));
  }
  return recipe;
}

QuantRecipe read_recipe(Os& os, const std::string& directory, const Json& config) {
  const Json& quantization = config_value(config, "quantization_config");
  std::vector<std::string> order;
  if (member(quantization, "config_groups").size() > 1) {
    // Json sorts the names. They stay sorted for a file with NaN, which this parser rejects.
    using OrderedJson = nlohmann::ordered_json;
    const OrderedJson file =
        OrderedJson::parse(read_text(os, join(directory, kConfigName), kMostJsonBytes), nullptr, false);
    for (const char* path :
         {"/text_config/quantization_config/config_groups", "/quantization_config/config_groups"})
      if (const OrderedJson::json_pointer groups(path); order.empty() && file.contains(groups))
        for (const auto& [name, group] : file.at(groups).items()) order.push_back(name);
  }
  return read_recipe(quantization, order);
}

}  // namespace planesmith
