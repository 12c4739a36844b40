#include "verify/subset.h"

#include <fmt/format.h>

#include <charconv>

#include "base/error.h"

namespace planesmith {

bool Subset::holds(std::uint64_t number) const {
  if (of != 0) return number % of == part - 1;
  std::uint64_t z = seed + 0x9e3779b97f4a7c15u * (number + 1);  // splitmix64
  z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
  z = (z ^ z >> 27) * 0x94d049bb133111ebu;
  return (z ^ z >> 31) % 100 < percent;
}

Subset parse_subset(const std::string& text) {
  constexpr std::uint64_t kMost = 1 << 20;
  Subset out;
  const char* const end = text.data() + text.size();
  std::uint64_t first = 0;
  auto [at, error] = std::from_chars(text.data(), end, first);
  if (error == std::errc() && at != end && *at == '%' && at + 1 == end && first >= 1 && first <= 100) {
    out.percent = first;
    return out;
  }
  if (error == std::errc() && at != end && *at == '/') {
    std::uint64_t of = 0;
    const auto [rest, wrong] = std::from_chars(at + 1, end, of);
    if (wrong == std::errc() && rest == end && first >= 1 && first <= of && of <= kMost) {
      out.part = first;
      out.of = of;
      return out;
    }
  }
  throw Error(
      ErrorCode::usage, "",
      fmt::format("--read-data-subset: '{}' is neither a share such as 10% nor a part such as 2/5", text));
}

}  // namespace planesmith
