#include "chunks/frame_grid.h"

#include "chunks/frame.h"

namespace planesmith::chunks {

std::uint64_t part_content_for(std::uint64_t part_size, std::uint64_t frame_size) {
  constexpr std::uint64_t kLeastFrame = 4 << 10;  // a shorter one is not worth its header
  const std::uint64_t whole = part_size / stored_size(frame_size),
                      left = part_size - whole * stored_size(frame_size);
  const std::uint64_t overhead = stored_size(left) - left;  // at least that of what fits
  const std::uint64_t rest = left > overhead ? left - overhead : 0;
  return whole * frame_size + (rest < kLeastFrame ? 0 : rest);
}

}  // namespace planesmith::chunks
