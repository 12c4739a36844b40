// Matrices of floats on a GPU.
#pragma once

#include <memory>

#include "quant/cuda/device.h"
#include "quant/quantizer.h"

namespace planesmith::cuda {

std::unique_ptr<Quantizer> make_quantizer(const Gpu& gpu);

}  // namespace planesmith::cuda
