// repack-experts translate: the same numbers in a layout that the engine serves.
#pragma once

#include "rewrite/modules.h"
#include "rewrite/rewrite.h"

namespace planesmith {

struct TranslateOptions {
  RewriteOptions rewrite;
  bool gate = false;   // then compare every element of both sides
  bool lossy = false;  // MXFP4 to NVFP4: round the blocks that are out of reach
};

struct TranslateGate {
  std::uint64_t modules = 0, elements = 0;  // quantized ones, dequantized on both sides and equal
  std::uint64_t tensors = 0;                // others, equal byte for byte
  std::vector<std::string> differences;     // the first of each module or tensor
};

struct TranslateResult {
  RewriteResult files;
  std::string from, to;  // "compressed-tensors nvfp4-pack-quantized", "modelopt NVFP4"
  std::map<std::string, std::uint64_t> modules;  // translated, by what was done
  std::uint64_t kept = 0;                        // quantized modules that are in a served layout already
  std::optional<TranslateGate> gate;
};

// Errors: a module whose scheme is not served (its name, its format and what to do instead), nothing to
// translate, MXFP4 blocks out of NVFP4's reach (their number), and those of rewrite().
TranslateResult translate(const Context& context, const TranslateOptions& options);

// Dequantizes the quantized modules of both checkpoints in float64 and compares every element; compares all
// other tensors byte for byte.
TranslateGate compare_translated(const Context& context, const std::string& source,
                                 const std::string& target);

}  // namespace planesmith
