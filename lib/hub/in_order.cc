#include "hub/in_order.h"

#include <algorithm>

#include "base/size.h"

namespace planesmith::hub {
namespace {

constexpr std::uint64_t kMostPiece = 4 * kMiB;  // small enough that writing keeps up with the download

}  // namespace

InOrder::InOrder(const Source& source, std::vector<Rest> files, const RangeOptions& options,
                 const Context& context)
    : files_(std::move(files)) {
  std::uint64_t total = 0;
  for (const Rest& rest : files_) total += rest.file.size - rest.begin;
  piece_ = range_size(total, options);
  std::vector<RemoteSource> remote;
  for (std::size_t i = 0; i < files_.size(); ++i) {
    const RemoteFile& file = files_[i].file;
    remote.push_back({.url = source.file(file.path), .name = file.path, .size = file.size});
    append_ranges(ranges_, i, files_[i].begin, file.size, piece_);
  }
  reader_ = std::make_unique<RangeReader>(std::move(remote), ranges_, source.token(), options, context);
}

ConstBytes InOrder::next(std::size_t index) {
  if (range_ < ranges_.size() && taken_ == ranges_[range_].size) {
    reader_->release(range_++);
    taken_ = 0;
  }
  if (range_ == ranges_.size() || ranges_[range_].file != index) return {};
  const std::uint64_t n = std::min(kMostPiece, ranges_[range_].size - taken_);
  const ConstBytes bytes = reader_->wait({.range = range_, .size = taken_ + n}).subspan(taken_);
  taken_ += n;
  return bytes;
}

void InOrder::again(std::size_t index, const std::function<void(ConstBytes)>& take) {
  std::vector<RemoteRange> ranges;
  append_ranges(ranges, index, 0, files_[index].file.size, piece_);
  for (const RemoteRange& range : ranges) take(reader_->again(range));
}

}  // namespace planesmith::hub
