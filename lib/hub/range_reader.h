// Ranges of remote files, fetched by many connections at once
// ahead of the threads that wait for them, in bounded memory.
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

// The first `size` bytes of a range, given by its number.
struct RangeFront {
  std::size_t range = 0;
  std::uint64_t size = 0;
};

struct RangeOptions {
  int connections = 16;
  std::uint64_t memory = 0;  // for received bytes that were not released; one range is always held
};

// Requests ranges in their order, so a caller that needs them in about this order never waits for memory. The
// connections are spread over a few threads, because one thread is slower than a fast network. A broken
// connection continues at the byte where it broke; from a server that ignores ranges, one connection reads
// each file from the front. All member functions may be called from any thread; after a final failure all of
// them throw that Error.
class RangeReader {
 public:
  RangeReader(std::vector<RemoteSource> files, const std::vector<RemoteRange>& ranges, const Token& token,
              const RangeOptions& options, const Context& context);
  ~RangeReader();

  // Waits for the bytes of a front. Valid until release().
  ConstBytes wait(const RangeFront& front);
  // Waits until at least one of the fronts is here; returns the lowest index of those.
  std::size_t wait_any(std::span<const RangeFront> fronts);
  void release(std::size_t range);
  // Fetches the bytes again over a new connection, because they were wrong.
  std::vector<std::uint8_t> again(const RemoteRange& range);

 private:
  class Inside;
  std::unique_ptr<Inside> inside_;
};

// Cuts [begin, end) of a file into ranges of about `size` bytes.
void append_ranges(std::vector<RemoteRange>& ranges, std::size_t file, std::uint64_t begin, std::uint64_t end,
                   std::uint64_t size);

// A good size of ranges: large enough that waiting for the first byte does not matter, small enough that two
// for each connection fit into memory and small files are spread over all connections.
std::uint64_t range_size(std::uint64_t total, const RangeOptions& options);

}  // namespace planesmith::hub
