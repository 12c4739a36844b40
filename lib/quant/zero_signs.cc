#include "quant/zero_signs.h"

namespace planesmith {

ZeroSigns SignsOfZeros::choose(format::ZeroMode mode) const {
  if (mode == format::ZeroMode::automatic) return last_;
  return mode == format::ZeroMode::alt ? ZeroSigns::alternate : ZeroSigns::keep;
}

bool SignsOfZeros::settle(format::ZeroMode mode, const ZeroCount& count) {
  const ZeroSigns right = one_signed(count) ? ZeroSigns::alternate : ZeroSigns::keep;
  if (mode != format::ZeroMode::automatic || right == last_) return true;
  last_ = right;
  return false;
}

}  // namespace planesmith
