// Ranges of remote files, fetched by many connections at once ahead of those who wait for them, in bounded
// memory.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/context.h"
#include "base/file.h"
#include "hub/token.h"
#include "hub/url.h"

namespace planesmith::hub {

struct RemoteRange {
  std::size_t file = 0;  // index into the files
  std::uint64_t offset = 0, size = 0;
};

struct RemoteSource {
  Url url;
  std::string name;  // for messages
  std::uint64_t size = 0;
};

// The first `size` bytes of a range, which is told by its number.
struct RangeFront {
  std::size_t range = 0;
  std::uint64_t size = 0;
};

struct RangeOptions {
  int connections = 16;
  std::uint64_t memory = 0;  // for bytes that arrived and were not released; at least one range is held
};

// Ranges are asked for in their order, so a caller that wants them in about this order never waits for
// memory. The connections are spread over a few threads, since one moves less than a fast network brings. A
// broken connection goes on at the byte where it broke; a server that ignores ranges is read from the front
// by one connection a file. All member functions may be called from any thread; once something has failed for
// good, all of them throw that Error.
class RangeReader {
 public:
  RangeReader(std::vector<RemoteSource> files, const std::vector<RemoteRange>& ranges, const Token& token,
              const RangeOptions& options, const Context& context);
  ~RangeReader();

  // The bytes of a front, as soon as they are here. Valid until release().
  ConstBytes wait(const RangeFront& front);
  // The first in this list of those that are here, as soon as one is: its index.
  std::size_t wait_any(std::span<const RangeFront> fronts);
  void release(std::size_t range);
  // The same bytes again, over a connection of their own: what came was wrong.
  std::vector<std::uint8_t> again(const RemoteRange& range);

 private:
  class Inside;
  std::unique_ptr<Inside> inside_;
};

// Cuts [begin, end) of a file into ranges of about `size` bytes.
void append_ranges(std::vector<RemoteRange>& ranges, std::size_t file, std::uint64_t begin, std::uint64_t end,
                   std::uint64_t size);

// A good size of ranges: large enough that waiting for the first byte does not matter, small enough for
// `connections` of them to be in flight twice over, and for small files to be spread over all connections.
std::uint64_t range_size(std::uint64_t total, const RangeOptions& options);

}  // namespace planesmith::hub
