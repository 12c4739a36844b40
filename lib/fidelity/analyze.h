// repack-experts analyze: the fidelity of every expert tensor; reads each once and writes nothing.
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
  std::optional<std::vector<std::uint64_t>> layers;  // layer indices; none: all
};

// Requantized families are judged on the nibbles of a single rank. Errors: a layer without routed experts
// (usage), a weight or scale that is not finite, errors of reading.
Fidelity analyze(const Context& context, const AnalyzeOptions& options, const Kernels& kernels);

}  // namespace planesmith
