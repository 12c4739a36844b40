#include "checkpoint/lfs_pointer.h"

#include <array>

namespace planesmith {

bool is_lfs_pointer(const File& file) {
  constexpr std::string_view kMark = "version https://git-lfs.github.com/spec/";
  std::array<std::uint8_t, kMark.size()> start{};
  const std::size_t n = file.read_some(start, 0);
  return std::string_view(reinterpret_cast<const char*>(start.data()), n) == kMark;
}

}  // namespace planesmith
