#include "base/file_contents.h"

#include <unistd.h>

#include <algorithm>
#include <vector>

#include "base/size.h"

namespace planesmith {
namespace {

constexpr std::uint64_t kCopyPiece = 4 * kMiB;

// The next range with data at or after `at`; empty at the end.
// A file system that cannot tell holes has data everywhere.
struct Range {
  std::uint64_t begin = 0, end = 0;
};
Range next_data(Os& os, const File& file, std::uint64_t at, std::uint64_t size) {
  const off_t begin = os.lseek(file.fd(), static_cast<off_t>(at), SEEK_DATA);
  if (begin < 0) return errno == ENXIO ? Range{size, size} : Range{at, size};
  const off_t end = os.lseek(file.fd(), begin, SEEK_HOLE);
  return {static_cast<std::uint64_t>(begin), end < 0 ? size : static_cast<std::uint64_t>(end)};
}

}  // namespace

void copy_contents(const Context& context, const File& from, File& to) {
  const std::uint64_t size = from.size();
  to.truncate(size);
  if (size != 0 && !to.try_clone(0, from, 0, size)) {
    std::vector<std::uint8_t> buffer(kCopyPiece);
    for (Range range; range.end < size;) {
      range = next_data(context.os, from, range.end, size);
      for (std::uint64_t at = range.begin; at < range.end;) {
        context.check_stop();
        const Bytes piece = Bytes(buffer).first(std::min(kCopyPiece, range.end - at));
        from.read(piece, at);
        to.write(piece, at);
        at += piece.size();
        context.progress.advance(piece.size());
      }
    }
  }
  to.sync();
}

bool same_contents(const Context& context, const File& a, const File& b) {
  const std::uint64_t size = a.size();
  if (b.size() != size) return false;
  std::vector<std::uint8_t> left(kCopyPiece), right(kCopyPiece);
  for (std::uint64_t at = 0; at < size; at += kCopyPiece) {
    context.check_stop();
    const std::uint64_t n = std::min(kCopyPiece, size - at);
    a.read(Bytes(left).first(n), at);
    b.read(Bytes(right).first(n), at);
    if (!std::equal(left.begin(), left.begin() + static_cast<std::ptrdiff_t>(n), right.begin())) return false;
  }
  return true;
}

}  // namespace planesmith
