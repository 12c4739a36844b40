#include "base/file_contents.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#include <algorithm>
#include <vector>

#include "base/size.h"

namespace planesmith {
namespace {

constexpr std::uint64_t kCopyPiece = 4 * kMiB, kComparedPiece = kMiB;

std::uint64_t seek(Os& os, const File& file, int whence, std::uint64_t at, std::uint64_t end,
                   std::uint64_t if_unknown) {
  const off_t found = os.lseek(file.fd(), static_cast<off_t>(at), whence);
  if (found >= 0) return std::clamp(static_cast<std::uint64_t>(found), at, end);
  return errno == ENXIO ? end : if_unknown;
}

}  // namespace

std::uint64_t next_data(const Context& context, const File& file, std::uint64_t at, std::uint64_t end) {
  return seek(context.os, file, SEEK_DATA, at, end, at);
}

std::uint64_t next_hole(const Context& context, const File& file, std::uint64_t at, std::uint64_t end) {
  return seek(context.os, file, SEEK_HOLE, at, end, end);
}

void copy_contents(const Context& context, const File& from, File& to) {
  const std::uint64_t size = from.size();
  to.truncate(size);
  if (size != 0 && !to.try_clone(0, from, 0, size)) {
    std::vector<std::uint8_t> buffer(kCopyPiece);
    for (std::uint64_t at = 0; (at = next_data(context, from, at, size)) < size;) {
      for (const std::uint64_t end = next_hole(context, from, at, size); at < end;) {
        context.check_stop();
        const Bytes piece = Bytes(buffer).first(std::min(kCopyPiece, end - at));
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
  std::vector<std::uint8_t> left(kComparedPiece), right(kComparedPiece);
  for (std::uint64_t at = 0;;) {
    context.check_stop();
    const std::uint64_t data_a = next_data(context, a, at, size), data_b = next_data(context, b, at, size);
    at = std::min(data_a, data_b);
    if (at == size) return true;
    const std::uint64_t n = std::min(kComparedPiece, size - at);
    const auto read = [&](const File& file, std::uint64_t data, std::vector<std::uint8_t>& to) {
      const Bytes piece = Bytes(to).first(n);
      if (data < at + n)
        file.read(piece, at);
      else
        std::fill(piece.begin(), piece.end(), std::uint8_t{0});
    };
    read(a, data_a, left);
    read(b, data_b, right);
    if (memcmp(left.data(), right.data(), n) != 0) return false;
    at += n;
  }
}

}  // namespace planesmith
