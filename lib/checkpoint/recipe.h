// How a checkpoint says that its modules are stored: quantization_config of config.json, in the words of the
// tools that write it.
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

// What a weight's numbers are, whatever its tensors are called.
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
  std::string name;    // of the group; "" where the recipe has one for all
  std::string format;  // "nvfp4-pack-quantized", "NVFP4", ...: what the recipe calls it
  Scheme scheme = Scheme::unknown;
  std::uint64_t block_rows = 0, block_cols = 0;  // fp8_block
  bool activations = false;                      // has scales or settings for them; else weights only
  std::vector<Pattern> targets;
};

struct QuantRecipe {
  std::string method;  // quant_method; "" where config.json has no quantization_config
  std::string format;  // of the whole: "mixed-precision", "NVFP4", ...
  std::vector<QuantGroup> groups;
  std::vector<Pattern> ignore;
  std::map<std::string, QuantGroup, std::less<>> layers;  // modelopt's mixed precision, by module
  std::string kv_cache;                                   // "FP8" where keys and values are cached so

  bool ignores(const std::string& module) const;
  // The group of a module, as the serving side finds it: `ignore` first, then the first target that is the
  // module's name or an expression that matches it, then the first that is its class. Of several groups with
  // this very target the last counts. None: not quantized.
  const QuantGroup* group_of(const std::string& module) const;
  // "compressed-tensors nvfp4-pack-quantized"
  std::string title() const;

 private:
  const QuantGroup* last_with(const Pattern& target) const;
};

// quantization: quantization_config, or null. Values of strange types are passed over. group_order: names of
// config_groups as the file lists them, by which overlaps are resolved; those that it lacks come last.
QuantRecipe read_recipe(const Json& quantization, const std::vector<std::string>& group_order = {});
// That of a directory's config.json, with its order.
QuantRecipe read_recipe(Os& os, const std::string& directory, const Json& config);

// --- what becomes of it ---

enum class Lead {
  build,      // the builders read it as it is
  quantize,   // it is not quantized yet
  translate,  // the same numbers in another layout
  none,       // nothing that is served
};

struct FormatRow {
  std::string_view method, format;  // format "": any of the method
  Scheme scheme;                    // unknown: the recipe's numbers decide
  std::string_view what;            // in a few words
};
// The one table of formats: the row of a method and a format, the method's own where the format has none;
// null: of an unknown method.
const FormatRow* find_format(std::string_view method, std::string_view format);

}  // namespace planesmith
