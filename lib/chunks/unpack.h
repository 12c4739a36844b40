// Unpacking: parts -> frames -> files, each under its name only when it is complete, verified and durable.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/context.h"
#include "chunks/byte_source.h"
#include "chunks/chunk_set.h"
#include "chunks/frame_feed.h"

namespace planesmith::chunks {

struct UnpackOptions {
  std::string out = ".";
  std::vector<std::string> include{}, exclude{};  // member_filter.h
  bool force = false;                             // replace existing files with other contents
  bool recheck = false;         // compare finished files with the manifest, do not trust the record
  bool preserve_modes = false;  // modes as in the archive, not reduced by the umask
  bool stream_delete = false;   // remove each part once its content is durable
  bool check_space = true;      // an Error if the files do not fit into the free space
  bool dry_run = false;         // check and count, write nothing
};

struct UnpackResult {
  std::uint64_t files = 0, bytes = 0;          // of the wanted files; holes included
  std::uint64_t kept = 0;                      // wanted files that were there already with the right contents
  std::uint64_t frames = 0, packed_bytes = 0;  // to be decompressed; with a manifest only
  std::vector<std::string> paths{};            // of the files; without a manifest only
};

// With a manifest: reads frames in parallel, compares each with it, and continues an interrupted run. Without
// one: reads the parts as one stream of zstd frames with a tar in it, made by any program; files get their
// names after all of it was read. input: a descriptor with the bytes of all parts; -1: the set's part files.
// Errors: with code difference, bytes that differ from the manifest; members that lead out of the directory;
// existing files with other contents, without force.
UnpackResult unpack(const ChunkSet& set, int input, const UnpackOptions& options, const Context& context);

// The way with a manifest. feed: the source of the frames in place of parts or input; a run that was
// interrupted or failed then continues at the frame where it stopped.
UnpackResult unpack_frames(const ChunkSet& set, int input, const UnpackOptions& options,
                           const Context& context, FrameFeed* feed = nullptr);
// The way without a manifest.
UnpackResult unpack_stream(const ChunkSet& set, int input, const UnpackOptions& options,
                           const Context& context);
// The same from another source of bytes; name: of the set.
UnpackResult unpack_stream(ByteSource& source, const std::string& name, const UnpackOptions& options,
                           const Context& context);

}  // namespace planesmith::chunks
