// What must hold for every input; libFuzzer keeps the input for which it does not.
#pragma once

#include <cstdlib>

inline void require(bool holds) {
  if (!holds) std::abort();
}
