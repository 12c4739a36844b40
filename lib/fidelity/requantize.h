// The nibbles of a requantized tensor, under both treatments of exact zeros.
#pragma once

#include <array>

#include "fidelity/fidelity.h"
#include "quant/kernels.h"

namespace planesmith {

using ZeroModes = TensorFidelity::ZeroModes;

// Counts the nibbles of a whole tensor into `modes` and adds its zeros to `zeros`. plane: room for rows *
// cols / 2 bytes. False: a weight or scale is not finite.
bool requantize(const Kernels& kernels, const Slice& slice, Bytes plane, ZeroModes& modes, ZeroCount& zeros);

// Chooses what zero mode auto means for an expert: once for w1 and w3 together, once for w2.
void choose_modes(const std::array<ZeroCount, kProjections>& zeros,
                  std::array<ZeroModes, kProjections>& modes);

}  // namespace planesmith
