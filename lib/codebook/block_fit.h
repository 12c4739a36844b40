// Fits a codebook to each block of 32 weights, many blocks at a time with vector instructions.
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
  // levels: 2..14 (15 and 16 change nothing); isa: a Kernels' name.
  // All of them give the results of fit_subset() and map_to().
  BlockRemapper(int levels, std::string_view isa);

  // Fits and maps each block in place; `blocks` holds whole blocks.
  // Returns four times the sum of squared errors.
  std::uint64_t operator()(Bytes blocks) const;

 private:
  int levels_;
  std::string_view isa_;
  std::vector<NibbleMap> maps_;  // by set; only those of `levels` levels are filled in
};

}  // namespace planesmith
