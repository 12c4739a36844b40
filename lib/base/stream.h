// Reads a range of a file from front to back in pieces, in bounded memory.
// Each piece polls Stop and reports progress.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "base/context.h"
#include "base/file.h"

namespace planesmith {

// A piece fits into the second-level cache, so that its consumer does not wait for memory again.
inline constexpr std::uint64_t kPiece = 512 * kKiB;
// The buffer of one stream: stream_ahead() needs several pieces in flight.
inline constexpr std::uint64_t kStreamBuffer = 4 * kPiece;

using TakePiece = std::function<void(ConstBytes piece)>;

// Passes the bytes [offset, offset + size) to `take` in order.
// `buffer` has kStreamBuffer bytes. A file that ends earlier is an Error.
void stream(const Context& context, const File& file, std::uint64_t offset, std::uint64_t size, Bytes buffer,
            const TakePiece& take);

// The same for a `take` that is slower than reading (SHA-256):
// a second thread reads the next pieces meanwhile.
void stream_ahead(const Context& context, const File& file, std::uint64_t offset, std::uint64_t size,
                  Bytes buffer, const TakePiece& take);

// A stream buffer for each worker; as many workers as context.threads and context.memory allow.
// Error (usage): the memory is too small for one.
class StreamBuffers {
 public:
  explicit StreamBuffers(const Context& context);
  int workers() const { return workers_; }
  Bytes of(int worker);

 private:
  int workers_;
  std::vector<std::vector<std::uint8_t>> buffers_;
};

}  // namespace planesmith
