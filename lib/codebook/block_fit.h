// Blocks of 32 weights, each with a codebook of its own: many at a time, with what the machine has.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "base/file.h"
#include "codebook/fit.h"

namespace planesmith {

inline constexpr int kBlockElements = 32, kBlockBytes = 16;

class BlockRemapper {
 public:
  // levels: 2..14 (15 and 16 change nothing); isa: a Kernels' name. Each of them gives what fit_subset and
  // map_to give.
  BlockRemapper(int levels, std::string_view isa);

  // Fits and maps each block in place; `blocks` is whole blocks. Returns the sum of squared errors, four
  // times.
  std::uint64_t operator()(Bytes blocks) const;

 private:
  int levels_;
  std::string_view isa_;
  std::vector<NibbleMap> maps_;  // by set; only those of `levels` levels are filled in
};

}  // namespace planesmith
