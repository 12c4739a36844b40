// What quantizing costs a tensor of floats: NVFP4, and the 2-bit codebook that the engine makes of it.
#pragma once

#include "fidelity/fidelity.h"
#include "quant/quantize.h"

namespace planesmith {

// Of a tensor, against the floats it comes from.
class FloatCosts {
 public:
  // Adds rows: their weights (rows of whole blocks of 32), what to_nvfp4() made of them.
  void add(const FloatValues& weights, const std::uint8_t* nibbles, const std::uint8_t* scales,
           float scale_2);

  FloatCost nvfp4() const { return cost(nvfp4_); }
  // alternate: zeros have the sign of their column's last bit, else their own.
  FloatCost served(bool alternate) const { return cost(served_[alternate]); }

 private:
  struct Errors {
    double sum = 0, squares = 0;
    void add(double error) {
      sum += error;
      squares += error * error;
    }
  };
  FloatCost cost(const Errors& errors) const;
  Errors nvfp4_, served_[2];
  double magnitudes_ = 0, squares_ = 0;  // of the weights
};

}  // namespace planesmith
