#include "hub/hub_frames.h"

#include "base/file.h"

namespace planesmith::hub {
namespace {

constexpr int kMostTimes = 3;  // that a wrong frame is fetched

}  // namespace

HubFrames::HubFrames(const Source& source, std::string directory, const chunks::ChunkManifest& manifest,
                     const RangeOptions& options, const Context& context)
    : source_(source),
      directory_(std::move(directory)),
      manifest_(manifest),
      options_(options),
      context_(context),
      range_of_(manifest.frames.size(), kNowhere) {}

// Frames that follow each other in a part come in one range, as long as it does not get too large.
void HubFrames::expect(std::span<const std::size_t> frames) {
  std::uint64_t total = 0;
  for (const std::size_t f : frames) total += manifest_.frames[f].size;
  const std::uint64_t most = range_size(total, options_);
  for (const std::size_t f : frames) {
    const chunks::FrameEntry& frame = manifest_.frames[f];
    const bool joined = !ranges_.empty() && ranges_.back().file == frame.part &&
                        ranges_.back().offset + ranges_.back().size == frame.offset &&
                        ranges_.back().size + frame.size <= most;
    if (!joined) {
      ranges_.push_back({.file = frame.part, .offset = frame.offset, .size = 0});
      left_.push_back(0);
    }
    ranges_.back().size += frame.size;
    ++left_.back();
    range_of_[f] = ranges_.size() - 1;
  }
  std::vector<RemoteSource> parts;
  for (const FileEntry& part : manifest_.parts) {
    const std::string path = directory_.empty() ? part.path : join(directory_, part.path);
    parts.push_back({.url = source_.file(path), .name = path, .size = part.size});
  }
  reader_ = std::make_unique<RangeReader>(std::move(parts), ranges_, source_.token(), options_, context_);
}

ConstBytes HubFrames::read(std::size_t f) {
  const chunks::FrameEntry& frame = manifest_.frames[f];
  const std::uint64_t begin = frame.offset - ranges_[range_of_[f]].offset;
  return reader_->wait(range_of_[f], begin + frame.size).subspan(begin);
}

bool HubFrames::read_again(std::size_t f, ConstBytes& frame) {
  const chunks::FrameEntry& entry = manifest_.frames[f];
  Again* again = nullptr;
  {
    const std::lock_guard lock(mutex_);
    again = &again_[f];
  }
  if (++again->times == kMostTimes) return false;
  again->bytes = reader_->again({.file = entry.part, .offset = entry.offset, .size = entry.size});
  frame = again->bytes;
  return true;
}

void HubFrames::done(std::size_t f) {
  const std::size_t range = range_of_[f];
  bool whole = false;
  {
    const std::lock_guard lock(mutex_);
    again_.erase(f);
    whole = --left_[range] == 0;
  }
  if (whole) reader_->release(range);
}

}  // namespace planesmith::hub
