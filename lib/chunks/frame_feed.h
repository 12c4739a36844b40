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
  // One of the expected frames before `end` that was not given yet, as soon as one is here: whichever comes
  // first, so that none waits for a slower one. There must be one. Several threads ask.
  struct Arrived {
    std::size_t f = 0;
    ConstBytes bytes{};  // valid until done(f)
  };
  virtual Arrived next(std::size_t end) = 0;
  // The same frame once more, because what came was wrong; false: it was wrong often enough.
  virtual bool read_again(std::size_t f, ConstBytes& frame) = 0;
  virtual void done(std::size_t f) = 0;
};

}  // namespace planesmith::chunks
