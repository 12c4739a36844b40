// Reads remote files from front to back, one after the other, over many connections at once.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/context.h"
#include "hub/range_reader.h"
#include "hub/source.h"

namespace planesmith::hub {

// The rest of a file: from byte `begin` on.
struct Rest {
  RemoteFile file;
  std::uint64_t begin = 0;
};

class InOrder {
 public:
  InOrder(const Source& source, std::vector<Rest> files, const RangeOptions& options, const Context& context);
  // The next bytes of file `index`, which is the file read last or a later one; empty at its end.
  // Valid until the next call.
  ConstBytes next(std::size_t index);
  // Passes all bytes of a file again, piece by piece, because they were wrong.
  void again(std::size_t index, const std::function<void(ConstBytes)>& take);

 private:
  std::vector<Rest> files_;
  std::vector<RemoteRange> ranges_;
  std::uint64_t piece_;
  std::size_t range_ = 0;    // the range that is being read
  std::uint64_t taken_ = 0;  // bytes read of it
  std::unique_ptr<RangeReader> reader_;
};

}  // namespace planesmith::hub
