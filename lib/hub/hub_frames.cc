#include "hub/hub_frames.h"

#include <algorithm>

#include "base/file.h"

namespace planesmith::hub {
namespace {

constexpr int kMostTimes = 3;  // how often a wrong frame is fetched

}  // namespace

HubFrames::HubFrames(const Source& source, std::string directory, const chunks::ChunkManifest& manifest,
                     const RangeOptions& options, const Context& context)
    : source_(source),
      directory_(std::move(directory)),
      manifest_(manifest),
      options_(options),
      context_(context) {}

RemoteRange HubFrames::range_of(const Run& run) const {
  const chunks::FrameEntry& first = manifest_.frames[run.begin];
  const chunks::FrameEntry& last = manifest_.frames[run.end - 1];
  return {.file = first.part, .offset = first.offset, .size = last.offset + last.size - first.offset};
}

// Joins adjacent frames of a part into one range, up to a limit.
void HubFrames::expect(std::span<const std::size_t> frames) {
  std::uint64_t total = 0;
  for (const std::size_t f : frames) total += manifest_.frames[f].size;
  const std::uint64_t most = range_size(total, options_);
  for (const std::size_t f : frames) {
    const chunks::FrameEntry& frame = manifest_.frames[f];
    const RemoteRange before = runs_.empty() ? RemoteRange{} : range_of(runs_.back());
    const bool joined = !runs_.empty() && runs_.back().end == f && before.file == frame.part &&
                        before.offset + before.size == frame.offset && before.size + frame.size <= most;
    if (!joined) runs_.push_back({.begin = f, .given = f});
    runs_.back().end = f + 1;
  }
  std::vector<RemoteSource> parts;
  for (const FileEntry& part : manifest_.parts) {
    const std::string path = directory_.empty() ? part.path : join(directory_, part.path);
    parts.push_back({.url = source_.file(path), .name = path, .size = part.size});
  }
  std::vector<RemoteRange> ranges;
  for (const Run& run : runs_) ranges.push_back(range_of(run));
  reader_ = std::make_unique<RangeReader>(std::move(parts), ranges, source_.token(), options_, context_);
}

// The next frames of the ranges that may be in flight, those of ranges with the fewest frames in work first,
// because threads that write into one file wait for each other.
std::vector<RangeFront> HubFrames::wanted(std::size_t end) {
  const std::lock_guard lock(mutex_);
  while (first_run_ < runs_.size() && runs_[first_run_].given == runs_[first_run_].end) ++first_run_;
  const std::size_t window = 4 * static_cast<std::size_t>(options_.connections);
  std::vector<RangeFront> fronts;
  for (std::size_t r = first_run_; r < runs_.size() && r - first_run_ < window; ++r) {
    const Run& run = runs_[r];
    if (run.given == run.end || run.given >= end) continue;
    const chunks::FrameEntry& frame = manifest_.frames[run.given];
    fronts.push_back({.range = r, .size = frame.offset + frame.size - manifest_.frames[run.begin].offset});
  }
  std::stable_sort(fronts.begin(), fronts.end(), [&](const RangeFront& a, const RangeFront& b) {
    return runs_[a.range].at_work() < runs_[b.range].at_work();
  });
  return fronts;
}

HubFrames::Arrived HubFrames::next(std::size_t end) {
  const std::lock_guard turn(turn_);
  const std::vector<RangeFront> fronts = wanted(end);
  const RangeFront& front = fronts.at(reader_->wait_any(fronts));
  const ConstBytes bytes = reader_->wait(front);
  const std::lock_guard lock(mutex_);
  const std::size_t f = runs_[front.range].given++;
  return {.f = f, .bytes = bytes.last(manifest_.frames[f].size)};
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
  std::size_t range = 0;
  bool whole = false;
  {
    const std::lock_guard lock(mutex_);
    again_.erase(f);
    range = static_cast<std::size_t>(
        std::upper_bound(runs_.begin(), runs_.end(), f,
                         [](std::size_t frame, const Run& run) { return frame < run.end; }) -
        runs_.begin());
    Run& run = runs_[range];
    whole = ++run.done == run.end - run.begin;
  }
  if (whole) reader_->release(range);
}

}  // namespace planesmith::hub
