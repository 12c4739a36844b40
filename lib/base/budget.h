// What --memory allows.
#pragma once

#include <cstdint>

#include "base/context.h"

namespace planesmith {

// How many workers of `each` bytes, at most `most`, fit beside `fixed` bytes into `memory`. Error (usage):
// not even one; it says what the smallest --memory that works is.
int workers_within(std::uint64_t memory, std::uint64_t fixed, std::uint64_t each, int most);

inline std::uint64_t memory_per_thread(const Context& context) {
  return context.memory / static_cast<std::uint64_t>(context.threads < 1 ? 1 : context.threads);
}

}  // namespace planesmith
