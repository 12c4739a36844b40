#include "chunks/member.h"

#include <algorithm>

#include "base/size.h"

namespace planesmith::chunks {
std::string_view name(MemberType type) {
  static constexpr std::string_view kNames[] = {"file", "directory", "symlink", "hardlink"};
  return kNames[static_cast<int>(type)];
}

std::uint64_t Member::packed_before(std::uint64_t file_offset) const {
  const auto next =
      std::upper_bound(extents.begin(), extents.end(), file_offset,
                       [](std::uint64_t at, const Extent& extent) { return at < extent.offset; });
  if (next == extents.begin()) return 0;
  const Extent& extent = *(next - 1);
  return extent.packed + std::min(file_offset - extent.offset, extent.size);
}

std::uint64_t Member::end() const {
  return data_offset + round_up(data_size(), kTarBlock);
}

void append_extent(std::vector<Extent>& extents, std::uint64_t offset, std::uint64_t size) {
  if (size == 0) return;
  if (!extents.empty() && extents.back().offset + extents.back().size == offset)
    extents.back().size += size;
  else
    extents.push_back({offset, size, extents.empty() ? 0 : extents.back().packed + extents.back().size});
}

bool path_less(std::string_view a, std::string_view b) {
  return std::lexicographical_compare(a.begin(), a.end(), b.begin(), b.end(), [](char x, char y) {
    // '/' sorts before every other byte, so that "a/b" comes between "a" and "a-b".
    const auto rank = [](char c) {
      return c == '/' ? 0 : static_cast<int>(static_cast<unsigned char>(c)) + 1;
    };
    return rank(x) < rank(y);
  });
}

}  // namespace planesmith::chunks
