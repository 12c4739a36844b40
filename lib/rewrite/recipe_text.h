// What a quantized checkpoint says of itself: config.json's quantization_config, and hf_quant_config.json of
// the checkpoints that modelopt wrote.
#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "base/json.h"
#include "checkpoint/checkpoint.h"
#include "rewrite/json_text.h"

namespace planesmith {

inline constexpr std::uint64_t kMostConfigBytes = 16 * kMiB;
inline constexpr std::string_view kModeloptConfig = "hf_quant_config.json";

// The modules that are not quantized, as modelopt lists them: a module's name, or the shortest part of it
// that begins no quantized module's name, with a star. Modules are what has a weight of two dimensions or
// more.
std::vector<std::string> excluded_modules(const std::set<std::string>& quantized,
                                          const std::set<std::string>& unquantized);

// quantization_config and hf_quant_config.json of NVFP4 as modelopt writes them. algorithm: "NVFP4" or
// "W4A16_NVFP4", which has no activation scales.
OrderedJson modelopt_config(const std::string& algorithm, const std::vector<std::string>& excluded);
OrderedJson modelopt_file(const std::string& algorithm, const std::vector<std::string>& excluded);

// The same of several formats: `layers` has the algorithm of each module, experts of a layer under one name.
std::pair<OrderedJson, OrderedJson> mixed_config(const std::map<std::string, std::string>& layers,
                                                 const std::vector<std::string>& excluded);

// config.json's text with this quantization_config in place of the one it has, wherever that is, everything
// else byte for byte. `more`: members of the top that are set likewise.
std::string with_quantization(const Context& context, const Checkpoint& checkpoint,
                              const OrderedJson& quantization,
                              const OrderedJson& more = OrderedJson::object());

}  // namespace planesmith
