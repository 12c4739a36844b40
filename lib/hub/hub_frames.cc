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

std::uint64_t HubFrames::least_memory(const chunks::ChunkManifest& manifest) {
  std::uint64_t most = range_size(manifest.packed_size(), {.memory = 0});
  for (const chunks::FrameEntry& frame : manifest.frames) most = std::max(most, frame.size);
  return most;
}

RemoteRange HubFrames::range_of(const Run& run) const {
  const chunks::FrameEntry& first = manifest_.frames[run.begin];
  const chunks::FrameEntry& last = manifest_.frames[run.end - 1];
  return {.file = first.part, .offset = first.offset, .size = last.offset + last.size - first.offset};
}

// Joins adjacent frames of a part into one range, up to a limit. The connections are spread over the parts of
// a batch, each of them over neighbouring parts from front to back, because neighbouring frames are of one
// file, and threads that write into one file wait for each other. No part is in two lanes: a server that
// ignores ranges sends a part from its front, so that what comes first in it must be wanted first.
std::vector<HubFrames::Run> HubFrames::runs_of(std::span<const std::size_t> frames,
                                               std::uint64_t most) const {
  std::vector<std::vector<Run>> parts;
  for (const std::size_t f : frames) {
    const chunks::FrameEntry& frame = manifest_.frames[f];
    const RemoteRange before = parts.empty() ? RemoteRange{} : range_of(parts.back().back());
    const bool same_part = !parts.empty() && before.file == frame.part;
    const bool joined = same_part && parts.back().back().end == f &&
                        before.offset + before.size == frame.offset && before.size + frame.size <= most;
    if (!same_part) parts.emplace_back();
    if (!joined) parts.back().push_back({.begin = f, .given = f});
    parts.back().back().end = f + 1;
  }
  const std::size_t lanes = std::min(static_cast<std::size_t>(options_.connections), parts.size());
  std::vector<std::vector<Run>> by_lane(lanes);
  std::size_t longest = 0;
  for (std::size_t p = 0; p < parts.size(); ++p) {
    std::vector<Run>& lane = by_lane[p * lanes / parts.size()];
    lane.insert(lane.end(), parts[p].begin(), parts[p].end());
    longest = std::max(longest, lane.size());
  }
  std::vector<Run> runs;
  for (std::size_t i = 0; i < longest; ++i)
    for (const std::vector<Run>& lane : by_lane)
      if (i < lane.size()) runs.push_back(lane[i]);
  return runs;
}

void HubFrames::expect(std::span<const std::span<const std::size_t>> batches) {
  std::uint64_t total = 0;
  for (const auto& batch : batches)
    for (const std::size_t f : batch) total += manifest_.frames[f].size;
  const std::uint64_t most = range_size(total, options_);
  range_of_.resize(manifest_.frames.size());
  for (const auto& batch : batches)
    for (const Run& run : runs_of(batch, most)) {
      std::fill(range_of_.begin() + static_cast<std::ptrdiff_t>(run.begin),
                range_of_.begin() + static_cast<std::ptrdiff_t>(run.end), runs_.size());
      runs_.push_back(run);
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
  const std::size_t range = range_of_[f];
  bool whole = false;
  {
    const std::lock_guard lock(mutex_);
    again_.erase(f);
    Run& run = runs_[range];
    whole = ++run.done == run.end - run.begin;
  }
  if (whole) reader_->release(range);
}

}  // namespace planesmith::hub
