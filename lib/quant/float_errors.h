// What NVFP4 of float weights, and the 2-bit codebook that is served of it, are off these weights.
#pragma once

#include "quant/quantize.h"

namespace planesmith {

// A sum of values and one of their squares. Each is four sums, of the columns 4n, 4n + 1, 4n + 2 and 4n + 3,
// in the order of the weights: the same numbers on every processor.
struct ErrorSums {
  static constexpr unsigned kLanes = 4;
  double sum[kLanes]{}, squares[kLanes]{};

  void add(unsigned lane, double value) {
    sum[lane] += value;
    squares[lane] += value * value;
  }
  static double total(const double (&lanes)[kLanes]) { return (lanes[0] + lanes[1]) + (lanes[2] + lanes[3]); }
};

// In float64; each error is new - old, rounded once.
struct FloatErrors {
  ErrorSums weights;  // their magnitudes
  ErrorSums nvfp4;
  // The codebook, where zeros keep their sign, and where they have the last bit of their column for one.
  ErrorSums kept, alternated;
};

}  // namespace planesmith
