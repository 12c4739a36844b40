// What config.json says of the routed experts.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/error.h"
#include "checkpoint/model.h"
#include "format/limits.h"

namespace planesmith {
namespace {

std::uint64_t whole_number(const Json& value, std::string_view key, std::uint64_t most,
                           const std::string& path) {
  if (!value.is_number_unsigned() || value.get<std::uint64_t>() == 0 || value.get<std::uint64_t>() > most)
    throw Error(path, fmt::format("\"{}\" is {}; a whole number from 1 to {} was expected", key,
                                  value.is_number() ? value.dump() : value.type_name(), most));
  return value.get<std::uint64_t>();
}

// The value of the first key that is present.
std::uint64_t config_number(const Json& config, std::initializer_list<std::string_view> keys,
                            std::uint64_t most, const std::string& path) {
  for (const std::string_view key : keys)
    if (const Json& value = config_value(config, key); !value.is_null())
      return whole_number(value, key, most, path);
  throw Error(path, fmt::format("lacks \"{}\"", fmt::join(keys, "\" or \"")));
}

}  // namespace

format::Geometry config_geometry(const Json& config, const std::string& path) {
  format::Geometry geometry;
  geometry.layers = config_number(config, {"num_hidden_layers"}, format::kMostLayers, path);
  geometry.experts = config_number(config, {"n_routed_experts", "num_experts", "num_local_experts"},
                                   format::kMostExperts, path);
  geometry.hidden = config_number(config, {"hidden_size"}, format::kMostWidth, path);
  geometry.intermediate = config_number(config, {"moe_intermediate_size"}, format::kMostWidth, path);
  return geometry;
}

std::optional<std::uint64_t> first_sparse_layer(const Json& config) {
  const Json& first = config_value(config, "first_k_dense_replace");
  const Json& step = config_value(config, "moe_layer_freq");
  if (!first.is_number_unsigned() || !(step.is_null() || step == 1)) return std::nullopt;
  return first.get<std::uint64_t>();
}

std::optional<ScaleBlock> weight_block_size(const Json& config, const std::string& path) {
  constexpr const char* kKey = "weight_block_size";
  const Json& quantization = config_value(config, "quantization_config");
  if (!quantization.is_object() || !quantization.contains(kKey)) return std::nullopt;
  const Json& block = quantization[kKey];
  if (!block.is_array() || block.size() != 2)
    throw Error(path, fmt::format("\"{}\" is not a list of two numbers", kKey));
  return ScaleBlock{static_cast<std::uint32_t>(whole_number(block[0], kKey, format::kMostWidth, path)),
                    static_cast<std::uint32_t>(whole_number(block[1], kKey, format::kMostWidth, path))};
}

}  // namespace planesmith
