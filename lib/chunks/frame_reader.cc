#include "chunks/frame_reader.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/budget.h"
#include "base/error.h"
#include "base/stream.h"

namespace planesmith::chunks {
namespace {

std::uint64_t largest_frame(const ChunkManifest& manifest) {
  std::uint64_t most = 0;
  for (const FrameEntry& frame : manifest.frames) most = std::max(most, frame.size);
  return most;
}

std::uint64_t largest_content(const ChunkManifest& manifest) {
  return std::min(manifest.frame_size, manifest.layout.size());
}

}  // namespace

FrameReader::FrameReader(const ChunkManifest& manifest)
    : manifest_(manifest),
      frame_(std::make_unique_for_overwrite<std::uint8_t[]>(largest_frame(manifest))),
      content_(std::make_unique_for_overwrite<std::uint8_t[]>(largest_content(manifest))) {}

std::uint64_t FrameReader::memory(const ChunkManifest& manifest) {
  return largest_frame(manifest) + largest_content(manifest);
}

std::uint64_t FrameReader::least_memory(const ChunkManifest& manifest) {
  return std::max(memory(manifest), kStreamBuffer);
}

int FrameReader::threads(const ChunkManifest& manifest, const Context& context) {
  workers_within(context.memory, 0, least_memory(manifest), 1);
  return workers_within(context.memory, 0, memory(manifest), context.threads);
}

ConstBytes FrameReader::read(const File& part, std::size_t f) {
  const Bytes frame(frame_.get(), manifest_.frames[f].size);
  part.read(frame, manifest_.frames[f].offset);
  return frame;
}

ConstBytes FrameReader::read(ByteSource& stream, std::size_t f) {
  const std::uint64_t begin = manifest_.packed_offset(f);
  const auto read = [&](std::size_t size) {
    const Bytes bytes(frame_.get(), size);
    if (stream.read(bytes) < size)
      throw stream.error(stream.position(), ErrorCode::difference,
                         fmt::format("ends here, in or before frame {}; is a part missing?", f));
    return bytes;
  };
  while (stream.position() < begin) read(std::min(begin - stream.position(), largest_frame(manifest_)));
  return read(manifest_.frames[f].size);
}

Bytes FrameReader::buffer(std::size_t f) {
  return {content_.get(), manifest_.grid().size(f)};
}

Bytes FrameReader::content(ConstBytes frame, std::size_t f, const std::string& part_path) {
  const auto damaged = [&](const std::string& why) {
    return Error(ErrorCode::difference, part_path,
                 fmt::format("the frame here (number {}) is damaged: {}; fetch this part again", f, why))
        .at(manifest_.frames[f].offset);
  };
  const Bytes content = buffer(f);
  try {
    decompressor_.decompress(frame, content);
  } catch (const Error& error) {
    throw damaged(error.reason());
  }
  const Xxh3 found = Xxh3::of(content);
  if (found != manifest_.frames[f].xxh3)
    throw damaged(
        fmt::format("its content has XXH3 {} instead of {}", found.hex(), manifest_.frames[f].xxh3.hex()));
  return content;
}

}  // namespace planesmith::chunks
