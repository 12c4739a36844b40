// Applies codebooks to weights in memory: e2m1 nibbles, two in a byte, replaced in place.
#pragma once

#include <optional>

#include "base/file.h"
#include "codebook/block_fit.h"
#include "codebook/fit.h"
#include "quant/kernels.h"

namespace planesmith {

struct Codebook {
  LevelSet levels = 0;
  NibbleMap map{};
};

// Chooses and applies codebooks of one granularity. Used by many threads at once.
class Remapper {
 public:
  // Errors (usage): as check_levels.
  Remapper(Granularity granularity, int levels, const Kernels& kernels);

  // True: one codebook for a whole group (tensor, tensor_sym, expert), chosen from the group's counts and
  // applied to its bytes in any number of pieces. False: one for each row or block; pieces hold whole rows.
  bool by_group() const { return granularity_ <= Granularity::expert; }

  void count(ConstBytes piece, Counts& counts) const;               // adds the piece's nibbles
  Codebook choose(const Counts& counts) const;                      // of a group
  void apply(const Codebook& codebook, Bytes piece) const;          // of a group
  Deviation remap_rows(Bytes rows, std::uint64_t row_bytes) const;  // row, block32: chooses and applies

 private:
  Granularity granularity_;
  int levels_;
  const Kernels& kernels_;
  std::optional<BlockRemapper> blocks_;  // block32, unless it is the identity
};

}  // namespace planesmith
