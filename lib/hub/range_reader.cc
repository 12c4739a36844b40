#include "hub/range_reader.h"

#include <algorithm>

#include "base/size.h"
#include "hub/range_worker.h"

namespace planesmith::hub {

RangeReader::RangeReader(std::vector<RemoteSource> files, std::vector<RemoteRange> ranges, const Token& token,
                         const RangeOptions& options, const Context& context)
    : worker_(std::make_unique<Worker>(std::move(files), ranges, token, options, context)) {}
RangeReader::~RangeReader() = default;

ConstBytes RangeReader::wait(std::size_t range, std::uint64_t size) {
  return worker_->wait(range, size);
}

void RangeReader::release(std::size_t range) {
  worker_->release(range);
}

std::vector<std::uint8_t> RangeReader::again(const RemoteRange& range) {
  return worker_->again(range);
}

std::uint64_t RangeReader::received() const {
  return worker_->received();
}

void append_ranges(std::vector<RemoteRange>& ranges, std::size_t file, std::uint64_t begin, std::uint64_t end,
                   std::uint64_t size) {
  for (std::uint64_t at = begin; at < end; at += size)
    ranges.push_back({.file = file, .offset = at, .size = std::min(size, end - at)});
}

std::uint64_t range_size(std::uint64_t total, const RangeOptions& options) {
  const auto connections = static_cast<std::uint64_t>(std::max(options.connections, 1));
  const std::uint64_t most = std::clamp(options.memory / (2 * connections), 64 * kKiB, 64 * kMiB);
  return std::clamp(total / (4 * connections), std::min(kMiB, most), most);
}

}  // namespace planesmith::hub
