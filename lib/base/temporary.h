// The name under which a file is written until it is complete, next to its final name.
#pragma once

#include <string>
#include <string_view>

namespace planesmith {

inline constexpr std::string_view kTemporarySuffix = ".tmp";

inline std::string temporary_name(std::string_view name) {
  return std::string(name).append(kTemporarySuffix);
}
inline bool is_temporary_name(std::string_view name) {
  return name.ends_with(kTemporarySuffix);
}

}  // namespace planesmith
