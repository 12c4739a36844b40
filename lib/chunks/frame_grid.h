// How the tar stream is cut into frames and parts.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>

namespace planesmith::chunks {

// Frames have frame_size bytes of content each, except the last of a part, and parts have part_content bytes
// of content, except the last: the end of a part does not depend on how well its frames compress, so that
// each part can be made by itself. part_content 0: a set of an earlier version, whose parts end where the
// next frame would make them too long; only the very last frame is shorter.
struct FrameGrid {
  std::uint64_t stream_size = 0, frame_size = 1, part_content = 0;

  std::uint64_t span() const {
    return part_content == 0 ? std::max<std::uint64_t>(stream_size, 1) : part_content;
  }
  std::size_t frames_in_part() const { return (span() + frame_size - 1) / frame_size; }
  std::size_t parts() const { return (stream_size + span() - 1) / span(); }
  std::size_t frames() const {
    return stream_size / span() * frames_in_part() + (stream_size % span() + frame_size - 1) / frame_size;
  }
  std::uint64_t begin(std::size_t frame) const {
    return frame / frames_in_part() * span() + frame % frames_in_part() * frame_size;
  }
  std::uint64_t end(std::size_t frame) const {
    return std::min({begin(frame) + frame_size, (frame / frames_in_part() + 1) * span(), stream_size});
  }
  std::uint64_t size(std::size_t frame) const { return end(frame) - begin(frame); }
  std::size_t frame_at(std::uint64_t offset) const {
    return offset / span() * frames_in_part() + offset % span() / frame_size;
  }
  // Frames whose content overlaps the stream range [begin, end): [first, second).
  std::pair<std::size_t, std::size_t> frames_of(std::uint64_t begin, std::uint64_t end) const {
    return {frame_at(begin), begin == end ? frame_at(begin) : frame_at(end - 1) + 1};
  }
};

// The most content that always fits into a part of this size; frames that do not shrink are stored.
std::uint64_t part_content_for(std::uint64_t part_size, std::uint64_t frame_size);

}  // namespace planesmith::chunks
