// Byte counts as people write and read them (CLI.md, "Sizes").
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace planesmith {

inline constexpr std::uint64_t kKiB = 1024, kMiB = 1024 * kKiB, kGiB = 1024 * kMiB;

// "16GB" = 16e9, "16GiB" and "16G" = 16 * 2^30, "4096" = bytes; B, K, M, G and T likewise, upper or lower
// case, whole numbers only. Anything else is a usage Error naming `what`.
std::uint64_t parse_size(std::string_view text, std::string_view what);

// "6.75 MiB (7077888 bytes)"; below 1 KiB only "17 bytes".
std::string exact_size(std::uint64_t bytes);
// "6.75 MiB"
std::string short_size(std::uint64_t bytes);

constexpr std::uint64_t round_up(std::uint64_t n, std::uint64_t multiple) {
  return (n + multiple - 1) / multiple * multiple;
}

}  // namespace planesmith
