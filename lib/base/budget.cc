#include "base/budget.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"

namespace planesmith {

int workers_within(std::uint64_t memory, std::uint64_t fixed, std::uint64_t each, int most) {
  if (memory < fixed + each)
    throw Error(
        ErrorCode::usage, "",
        fmt::format("--memory {} is too small here; the smallest that works is {}", memory, fixed + each));
  if (each == 0) return std::max(most, 1);
  return static_cast<int>(
      std::min<std::uint64_t>(static_cast<std::uint64_t>(std::max(most, 1)), (memory - fixed) / each));
}

}  // namespace planesmith
