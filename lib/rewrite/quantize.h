// repack-experts quantize: converts the routed experts of a BF16, F16 or F32 checkpoint to NVFP4 or MXFP4.
#pragma once

#include "rewrite/float_experts.h"
#include "rewrite/rewrite.h"

namespace planesmith {

Fp4 parse_fp4(std::string_view text);  // anything else is a usage Error

struct QuantizeResult {
  RewriteResult files;
  std::uint64_t layers = 0, experts = 0, weights = 0;  // quantized; weights = layers x experts x 3
  std::uint64_t drafters = 0;                          // drafter tensors, left unquantized
  bool fused = false;                                  // whether the source's experts were fused
  std::vector<std::string> excluded;                   // modules, as the recipe lists them
};

// NVFP4: byte for byte what modelopt 0.47 exports where only experts are quantized, with its names, dtypes
// and shapes and input_scale 1 (arithmetic: lib/quant/quantize.h). MXFP4: DeepSeek-V4's layout. Errors: as
// find_float_experts() and rewrite(), a weight that is not finite, rows that do not divide into groups.
QuantizeResult quantize(const Context& context, Fp4 to, const RewriteOptions& options);

}  // namespace planesmith
