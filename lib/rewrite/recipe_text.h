// How a quantized checkpoint describes itself: quantization_config in config.json, and modelopt's
// hf_quant_config.json.
#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "base/json.h"
#include "checkpoint/checkpoint.h"
#include "checkpoint/recipe.h"
#include "rewrite/json_text.h"

namespace planesmith {

inline constexpr std::uint64_t kMostConfigBytes = 16 * kMiB;

// The unquantized modules as modelopt lists them: a module's name, or its shortest prefix (of whole
// components) that begins no quantized module's name, followed by "*". A module is whatever has a weight of
// two or more dimensions.
std::vector<std::string> excluded_modules(const std::set<std::string>& quantized,
                                          const std::set<std::string>& unquantized);

// quantization_config and hf_quant_config.json of NVFP4 as modelopt writes them. algorithm: "NVFP4" or
// "W4A16_NVFP4", which has no activation scales.
OrderedJson modelopt_config(const std::string& algorithm, const std::vector<std::string>& excluded);
OrderedJson modelopt_file(const std::string& algorithm, const std::vector<std::string>& excluded);

// The same for several formats (both files): `layers` has the algorithm of each module; the experts of a
// layer share one entry.
std::pair<OrderedJson, OrderedJson> mixed_config(const std::map<std::string, std::string>& layers,
                                                 const std::vector<std::string>& excluded);

// The text of config.json with this quantization_config in place of any other, at the top or in text_config;
// the rest stays byte for byte. `more`: other top-level members to set.
std::string with_quantization(const Context& context, const Checkpoint& checkpoint,
                              const OrderedJson& quantization,
                              const OrderedJson& more = OrderedJson::object());

}  // namespace planesmith
