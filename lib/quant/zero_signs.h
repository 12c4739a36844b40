// The signs of zeros that mode auto chooses (FORMAT.md section 4).
#pragma once

#include "format/geometry.h"
#include "quant/kernels.h"

namespace planesmith {

// The signs of one matrix's zeros, expert after expert. Mode auto knows them only when all zeros are counted.
// Experts of a checkpoint are alike, so the answer for the last one is taken until the count says otherwise;
// then the matrix is converted once more.
class SignsOfZeros {
 public:
  ZeroSigns choose(format::ZeroMode mode) const;
  // Whether a matrix that was converted with choose() is right, given its zeros.
  bool settle(format::ZeroMode mode, const ZeroCount& count);

 private:
  ZeroSigns last_ = ZeroSigns::keep;
};

}  // namespace planesmith
