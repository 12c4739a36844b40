// Matrices of floats by the CPU's kernels.
#pragma once

#include <memory>

#include "quant/kernels.h"
#include "quant/quantizer.h"

namespace planesmith {

std::unique_ptr<Quantizer> make_cpu_quantizer(const Kernels& kernels);

}  // namespace planesmith
