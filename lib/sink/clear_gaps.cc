#include "sink/clear_gaps.h"

#include <algorithm>
#include <vector>

#include "base/file_contents.h"
#include "base/size.h"

namespace planesmith {
namespace {

std::uint64_t clear(const Context& context, File& file, std::uint64_t begin, std::uint64_t end,
                    std::vector<std::uint8_t>& buffer) {
  std::uint64_t cleared = 0;
  for (std::uint64_t at = begin; at < end;) {
    if (end - at > 4 * kKiB && (at = next_data(context, file, at, end)) == end) break;
    context.check_stop();
    const Bytes piece = Bytes(buffer).first(std::min<std::uint64_t>(buffer.size(), end - at));
    file.read(piece, at);
    const auto strays =
        std::count_if(piece.begin(), piece.end(), [](std::uint8_t byte) { return byte != 0; });
    if (strays != 0) {
      std::fill(piece.begin(), piece.end(), std::uint8_t{0});
      file.write(piece, at);
      cleared += static_cast<std::uint64_t>(strays);
    }
    at += piece.size();
  }
  return cleared;
}

}  // namespace

std::uint64_t clear_gaps(const Context& context, File& file, std::span<const BlockRange> ranges) {
  std::vector<std::uint8_t> buffer(64 * kKiB);
  std::uint64_t cleared = 0, at = 0;
  for (const BlockRange& range : ranges) {
    if (at < range.offset) cleared += clear(context, file, at, range.offset, buffer);
    at = range.offset + range.size;
  }
  const std::uint64_t size = file.size();
  if (at < size) cleared += clear(context, file, at, size, buffer);
  if (cleared != 0) file.sync();
  return cleared;
}

}  // namespace planesmith
