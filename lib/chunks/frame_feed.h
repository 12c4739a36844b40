// Compressed frames that do not come from part files but over the network.
#pragma once

#include <cstddef>
#include <span>

#include "base/file.h"

namespace planesmith::chunks {

class FrameFeed {
 public:
  virtual ~FrameFeed() = default;
  // The frames that will be read, ascending, in batches: all of one are read before any of the next. Called
  // once, before the first read.
  virtual void expect(std::span<const std::span<const std::size_t>> batches) = 0;
  // One of the expected frames before `end` that was not returned yet, as soon as one is here: the first to
  // arrive, so that none waits for a slower one. There must be one. May be called by several threads.
  struct Arrived {
    std::size_t f = 0;
    ConstBytes bytes{};  // valid until done(f)
  };
  virtual Arrived next(std::size_t end) = 0;
  // Fetches the frame again because its bytes were wrong; false: it was wrong too often.
  virtual bool read_again(std::size_t f, ConstBytes& frame) = 0;
  virtual void done(std::size_t f) = 0;
};

}  // namespace planesmith::chunks
