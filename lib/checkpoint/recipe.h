// How a checkpoint's modules are stored according to quantization_config of config.json,
// as the different quantizers write it.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "base/os.h"
#include "checkpoint/pattern.h"

namespace planesmith {

// How a weight is stored, independent of the names of its tensors.
enum class Scheme {
  none,         // not quantized
  nvfp4,        // e2m1, e4m3 for 16, one float32
  mxfp4,        // e2m1, a power of two for 32
  fp8_block,    // e4m3, a float for a block of rows and columns
  fp8_channel,  // e4m3, a float for a row
  fp8_tensor,   // e4m3, one float
  mxfp8,        // e4m3, a power of two for 32
  integer,      // int4, int8 and the like
  unknown,
};

struct QuantGroup {
  std::string name;    // of the group; "" where the recipe has one for all modules
  std::string format;  // "nvfp4-pack-quantized", "NVFP4", ...: as in the recipe
  Scheme scheme = Scheme::unknown;
  std::uint64_t block_rows = 0, block_cols = 0;  // fp8_block
  bool activations = false;                      // activations are quantized too; else weights only
  std::vector<Pattern> targets;
};

struct QuantRecipe {
  std::string method;  // quant_method; "" where config.json has no quantization_config
  std::string format;  // of the whole: "mixed-precision", "NVFP4", ...
  std::vector<QuantGroup> groups;
  std::vector<Pattern> ignore;
  std::map<std::string, QuantGroup, std::less<>> layers;  // modelopt's mixed precision, by module
  std::string kv_cache;                                   // "FP8" where keys and values are cached in it

  bool ignores(const std::string& module) const;
  // The group of a module, as the serving side finds it: `ignore` first, then the first target that is the
  // module's name or an expression that matches it, then the first that is its class. If several groups have
  // the same target, the last one counts. Null: not quantized.
  const QuantGroup* group_of(const std::string& module) const;
  // "compressed-tensors nvfp4-pack-quantized"
  std::string title() const;

 private:
  const QuantGroup* last_with(const Pattern& target) const;
};

inline constexpr std::string_view kModeloptConfig = "hf_quant_config.json";
// A config.json without quantization_config gets it from "quantization" of modelopt's own file, as loaders
// do.
Json with_modelopt(Json config, const Json& quantization);

// quantization: quantization_config, or null. Values of unexpected types are ignored. group_order: names of
// config_groups in the file's order, which resolves overlaps; groups missing in it come last.
QuantRecipe read_recipe(const Json& quantization, const std::vector<std::string>& group_order = {});
// The recipe of a directory's config.json, groups in its order.
QuantRecipe read_recipe(Os& os, const std::string& directory, const Json& config);

// --- what to do with such a checkpoint ---

enum class Lead {
  build,      // the builders read it directly
  quantize,   // not quantized yet: quantize it
  translate,  // the same numbers in a layout that is served
  none,       // not served, and cannot be translated
};

struct FormatRow {
  std::string_view method, format;  // format "": any of the method
  Scheme scheme;                    // unknown: decided by the recipe's numbers
  std::string_view what;            // in a few words
};
// The row of a method and a format in the one table of formats;
// without such a row, the method's row for any format; null: neither exists.
const FormatRow* find_format(std::string_view method, std::string_view format);
// Whether the table has a format of this method whose experts may be served.
bool may_be_served(std::string_view method);

}  // namespace planesmith
