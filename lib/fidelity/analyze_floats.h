// repack-experts analyze of a checkpoint that is not quantized yet: what its experts would be as NVFP4, and
// what of them is served.
#pragma once

#include "fidelity/analyze.h"

namespace planesmith {

Fidelity analyze_floats(const Context& context, const Checkpoint& checkpoint, const AnalyzeOptions& options,
                        const Kernels& kernels);

}  // namespace planesmith
