// Compressed frames that come from elsewhere than part files: over the network.
#pragma once

#include <cstddef>
#include <span>

#include "base/file.h"

namespace planesmith::chunks {

class FrameFeed {
 public:
  virtual ~FrameFeed() = default;
  // The frames that will be wanted, ascending. Once, before the first read.
  virtual void expect(std::span<const std::size_t> frames) = 0;
  // The bytes of frame f, valid until done(f). Several threads read, frames in about ascending order.
  virtual ConstBytes read(std::size_t f) = 0;
  // The same once more, because what came was wrong; false: it was wrong often enough.
  virtual bool read_again(std::size_t f, ConstBytes& frame) = 0;
  virtual void done(std::size_t f) = 0;
};

}  // namespace planesmith::chunks
