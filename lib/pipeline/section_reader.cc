#include "pipeline/section_reader.h"

#include <algorithm>

namespace planesmith {

SectionReader::Digests SectionReader::read(const File& part, std::uint64_t offset, std::uint64_t n,
                                           bool derive, const Take& take) {
  Xxh3Stream stored, codes, made;
  for (std::uint64_t at = 0; at < n; at += kStored) {
    const Bytes piece = Bytes(buffers_->stored).first(std::min(kStored, n - at));
    part.read(piece, offset + at);
    stored.update(piece);
    if (!derive) {
      take(at, piece);
      continue;
    }
    const std::uint64_t tiles = piece.size() / format::kNibbleTile;
    kernels_.from_nibbles(piece.data(), tiles, buffers_->codes, buffers_->quintals);
    codes.update(Bytes(buffers_->codes).first(tiles * format::kCodeTile));
    const ConstBytes quintals = Bytes(buffers_->quintals).first(tiles * format::kQuintalTile);
    made.update(quintals);
    take(at / format::kNibbleTile * format::kQuintalTile, quintals);
  }
  const Xxh3 digest = stored.finish();
  return {digest, derive ? made.finish() : digest, codes.finish()};
}

}  // namespace planesmith
