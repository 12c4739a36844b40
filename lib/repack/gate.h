// repack-experts gate: with 16 levels, repacking must give identical bytes in every granularity.
#pragma once

#include <string>
#include <vector>

#include "base/context.h"
#include "codebook/fit.h"
#include "quant/kernels.h"

namespace planesmith {

struct GateResult {
  struct Difference {  // the first one of a tensor in one granularity
    std::string file, tensor;
    std::uint64_t offset = 0;  // in the file
    Granularity granularity = Granularity::tensor;
    std::uint8_t was = 0, became = 0;
  };
  struct File {
    std::string name;
    std::uint64_t tensors = 0, bytes = 0;  // expert weights that went through
  };
  std::vector<File> files;
  std::vector<Difference> differences;  // by file and offset
};

// Sends the expert weights of these shards (none named: all) through the code of `build`, in memory. Errors:
// not an MXFP4 checkpoint; a name that is not a shard with expert weights (usage).
GateResult gate(const Context& context, const std::string& source, const std::vector<std::string>& files,
                const Kernels& kernels);

}  // namespace planesmith
