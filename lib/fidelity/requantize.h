// What a tensor's nibbles are once the engine has requantized it, under either treatment of exact zeros.
#pragma once

#include <array>

#include "fidelity/fidelity.h"
#include "quant/backend.h"

namespace planesmith {

using ZeroModes = TensorFidelity::ZeroModes;

// Counts the nibbles of a whole tensor and adds its zeros. plane: room for rows * cols / 2 bytes. False: it
// holds what is not finite.
bool requantize(const Kernels& kernels, const Slice& slice, Bytes plane, ZeroModes& modes, ZeroCount& zeros);

// Mode auto of an expert: w1 and w3 are one unit, w2 is another.
void choose_modes(const std::array<ZeroCount, kProjections>& zeros,
                  std::array<ZeroModes, kProjections>& modes);

}  // namespace planesmith
