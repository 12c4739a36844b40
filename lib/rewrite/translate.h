// repack-experts translate: writes the same numbers in a layout that the engine serves.
#pragma once

#include "rewrite/modules.h"
#include "rewrite/rewrite.h"

namespace planesmith {

struct TranslateOptions {
  RewriteOptions rewrite;
  bool gate = false;   // compare every element of both sides afterwards
  bool lossy = false;  // MXFP4 to NVFP4: round the blocks beyond the range of NVFP4's scales
};

struct TranslateGate {
  std::uint64_t modules = 0, elements = 0;  // quantized; equal when dequantized
  std::uint64_t tensors = 0;                // other tensors, equal byte for byte
  std::vector<std::string> differences;     // the first of each module or tensor
};

struct TranslateResult {
  RewriteResult files;
  std::string from, to;  // "compressed-tensors nvfp4-pack-quantized", "modelopt NVFP4"
  std::map<std::string, std::uint64_t> modules;  // number of translated modules, by what was done
  std::uint64_t kept = 0;                        // quantized modules that are already in a served layout
  std::optional<TranslateGate> gate;
};

// Errors: a module whose scheme is not served (says what to do instead); nothing to translate; MXFP4 blocks
// beyond the range of NVFP4's scales (says how many); those of rewrite().
TranslateResult translate(const Context& context, const TranslateOptions& options);

// Dequantizes the quantized modules of both checkpoints in float64 and compares every element; compares all
// other tensors byte for byte.
TranslateGate compare_translated(const Context& context, const std::string& source,
                                 const std::string& target);

}  // namespace planesmith
