#include "base/size.h"

#include <fmt/format.h>

#include <charconv>
#include <limits>

#include "base/error.h"

namespace planesmith {

std::uint64_t parse_size(std::string_view text, std::string_view what) {
  struct Unit {
    std::string_view name;  // lower case
    std::uint64_t bytes;
  };
  static constexpr Unit kUnits[] = {{"", 1},
                                    {"b", 1},
                                    {"k", kKiB},
                                    {"kib", kKiB},
                                    {"kb", 1000},
                                    {"m", kMiB},
                                    {"mib", kMiB},
                                    {"mb", 1000'000},
                                    {"g", kGiB},
                                    {"gib", kGiB},
                                    {"gb", 1000'000'000},
                                    {"t", 1024 * kGiB},
                                    {"tib", 1024 * kGiB},
                                    {"tb", 1000'000'000'000}};
  std::uint64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error == std::errc() && end != text.data()) {
    std::string unit(end, static_cast<std::size_t>(text.data() + text.size() - end));
    for (char& c : unit)
      if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
    for (const Unit& known : kUnits)
      if (known.name == unit &&
          number <= std::uint64_t{std::numeric_limits<std::int64_t>::max()} / known.bytes)
        return number * known.bytes;
  }
  throw Error(ErrorCode::usage, "",
              fmt::format("{}: '{}' is not a size; write 16GB (10^9), 16GiB or 16G (2^30), or a number of "
                          "bytes",
                          what, text));
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
