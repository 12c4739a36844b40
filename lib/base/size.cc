#include "base/size.h"

#include <fmt/format.h>

#include <charconv>
#include <limits>

#include "base/error.h"

namespace planesmith {

std::uint64_t parse_size(std::string_view text, std::string_view what) {
  struct Unit {
    std::string_view name;
    std::uint64_t bytes;
  };
  static constexpr Unit kUnits[] = {{"", 1},
                                    {"B", 1},
                                    {"kB", 1000},
                                    {"KB", 1000},
                                    {"MB", 1000'000},
                                    {"GB", 1000'000'000},
                                    {"TB", 1000'000'000'000},
                                    {"KiB", kKiB},
                                    {"MiB", kMiB},
                                    {"GiB", kGiB},
                                    {"TiB", 1024 * kGiB}};
  std::uint64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error == std::errc() && end != text.data()) {
    const std::string_view unit(end, static_cast<std::size_t>(text.data() + text.size() - end));
    for (const Unit& known : kUnits)
      if (known.name == unit &&
          number <= std::uint64_t{std::numeric_limits<std::int64_t>::max()} / known.bytes)
        return number * known.bytes;
  }
  throw Error(ErrorCode::usage, "",
              fmt::format("{}: '{}' is not a size; write 16GB, 16GiB or a number of bytes", what, text));
}

std::string short_size(std::uint64_t bytes) {
  static constexpr std::string_view kNames[] = {"KiB", "MiB", "GiB", "TiB"};
  if (bytes < kKiB) return fmt::format("{} bytes", bytes);
  double value = static_cast<double>(bytes) / 1024;
  std::size_t unit = 0;
  while (value >= 1024 && unit + 1 < std::size(kNames)) value /= 1024, ++unit;
  return fmt::format("{:.{}f} {}", value, value < 10 ? 2 : value < 100 ? 1 : 0, kNames[unit]);
}

std::string exact_size(std::uint64_t bytes) {
  return bytes < kKiB ? short_size(bytes) : fmt::format("{} ({} bytes)", short_size(bytes), bytes);
}

}  // namespace planesmith
