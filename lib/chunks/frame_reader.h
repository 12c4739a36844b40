// Reads one frame of a part, decompresses it and compares it with the manifest.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "base/context.h"
#include "base/file.h"
#include "chunks/byte_source.h"
#include "chunks/chunk_manifest.h"
#include "chunks/frame.h"

namespace planesmith::chunks {

// For one thread, with its buffers.
class FrameReader {
 public:
  explicit FrameReader(const ChunkManifest& manifest);
  static std::uint64_t memory(const ChunkManifest& manifest);  // bytes that one of these allocates
  // The smallest context.memory: for one of these, or a buffer to hash files with, which is needed before.
  static std::uint64_t least_memory(const ChunkManifest& manifest);
  // As many threads as context.threads and context.memory allow. Error (usage): less than least_memory().
  static int threads(const ChunkManifest& manifest, const Context& context);

  // Reads frame f from its part, an open file.
  ConstBytes read(const File& part, std::size_t f);
  // The same from the stream of all parts, skipping the bytes before the frame.
  ConstBytes read(ByteSource& stream, std::size_t f);
  // The content of frame f, given its compressed bytes; valid until the next call.
  // Errors, with code difference, name the part and the frame's offset in it: a
  // frame that zstd refuses, and content whose XXH3 differs from the manifest's.
  Bytes content(ConstBytes frame, std::size_t f, const std::string& part_path);
  Bytes buffer(std::size_t f);  // room for the content of frame f, contents undefined

 private:
  const ChunkManifest& manifest_;
  Decompressor decompressor_;
  std::unique_ptr<std::uint8_t[]> frame_, content_;
};

}  // namespace planesmith::chunks
