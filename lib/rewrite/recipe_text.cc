#include "rewrite/recipe_text.h"

#include "base/size.h"
#include "format/slice.h"

namespace planesmith {
std::vector<std::string> excluded_modules(const std::set<std::string>& quantized,
                                          const std::set<std::string>& unquantized) {
  const auto begins_one = [&](const std::string& prefix) {
    const auto at = quantized.lower_bound(prefix);
    return at != quantized.end() && at->starts_with(prefix);
  };
  std::set<std::string> out;
  for (const std::string& module : unquantized) {
    std::size_t dot = module.find('.');
    while (dot != std::string::npos && begins_one(module.substr(0, dot))) dot = module.find('.', dot + 1);
    out.insert(dot == std::string::npos ? module : module.substr(0, dot) + "*");
  }
  return {out.begin(), out.end()};
}

OrderedJson modelopt_config(const std::string& algorithm, const std::vector<std::string>& excluded) {
  const OrderedJson fp4 = {
      {"dynamic", false}, {"num_bits", 4}, {"type", "float"}, {"group_size", kNvfp4Group}};
  OrderedJson group;
  if (algorithm == "NVFP4") group["input_activations"] = fp4;
  group["weights"] = fp4;
  group["targets"] = {"Linear"};
  OrderedJson config;
  config["config_groups"]["group_0"] = group;
  config["ignore"] = excluded;
  config["quant_algo"] = algorithm;
  config["producer"] = {{"name", "modelopt"}, {"version", "0.47.0"}};
  config["quant_method"] = "modelopt";
  return config;
}

OrderedJson modelopt_file(const std::string& algorithm, const std::vector<std::string>& excluded) {
  OrderedJson file;
  file["producer"] = {{"name", "modelopt"}, {"version", "0.47.0"}};
  file["quantization"] = {{"quant_algo", algorithm},
                          {"kv_cache_quant_algo", nullptr},
                          {"group_size", kNvfp4Group},
                          {"exclude_modules", excluded}};
  return file;
}

std::pair<OrderedJson, OrderedJson> mixed_config(const std::map<std::string, std::string>& layers,
                                                 const std::vector<std::string>& excluded) {
  OrderedJson config, file, list = OrderedJson::object();
  for (const auto& [module, algorithm] : layers) {
    list[module] = {{"quant_algo", algorithm}};
    if (algorithm.find("NVFP4") != std::string::npos) list[module]["group_size"] = kNvfp4Group;
  }
  config["quantized_layers"] = list;
  config["ignore"] = excluded;
  config["quant_algo"] = "MIXED_PRECISION";
  config["producer"] = {{"name", "modelopt"}, {"version", "0.47.0"}};
  config["quant_method"] = "modelopt";
  file["producer"] = config["producer"];
  file["quantization"] = {{"quant_algo", "MIXED_PRECISION"},
                          {"kv_cache_quant_algo", nullptr},
                          {"quantized_layers", list},
                          {"exclude_modules", excluded}};
  return {config, file};
}

std::string with_quantization(const Context& context, const Checkpoint& checkpoint,
                              const OrderedJson& quantization, const OrderedJson& more) {
  const std::string path = join(checkpoint.directory(), kConfigName);
  constexpr std::string_view kKey = "quantization_config";
  JsonText config(read_text(context.os, path, kMostConfigBytes), path);
  config.drop({"text_config", kKey});  // config_value() would look there first
  config.set({kKey}, quantization);
  for (const auto& [name, value] : more.items()) config.set({name}, value);
  return config.text();
}

}  // namespace planesmith
