// repack-experts analyze: the fidelity of every expert tensor, read once, nothing written.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/context.h"
#include "fidelity/fidelity.h"
#include "quant/kernels.h"

namespace planesmith {

struct AnalyzeOptions {
  std::string source;                                // directory of a checkpoint of any family
  std::optional<std::vector<std::uint64_t>> layers;  // indices; none: all
};

// Requantized families are judged on the nibbles of a single rank. Errors: a layer that has no routed experts
// (usage), a weight or scale that is not finite, and what reading can meet.
Fidelity analyze(const Context& context, const AnalyzeOptions& options, const Kernels& kernels);

}  // namespace planesmith
