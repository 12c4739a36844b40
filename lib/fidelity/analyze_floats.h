// repack-experts analyze of a float checkpoint:
// the error of its experts as NVFP4, and of the 2-bit planes served from that.
#pragma once

#include "fidelity/analyze.h"

namespace planesmith {

Fidelity analyze_floats(const Context& context, const Checkpoint& checkpoint, const AnalyzeOptions& options,
                        const Kernels& kernels);

}  // namespace planesmith
