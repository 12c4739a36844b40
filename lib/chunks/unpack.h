// Unpacking: parts -> frames -> files, each under its name only when it is whole, verified and durable.
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
  bool force = false;                             // replace files that are there with other contents
  bool recheck = false;         // compare finished files with the manifest, where a record says they are done
  bool preserve_modes = false;  // as the archive has them, not as the umask leaves them
  bool stream_delete = false;   // remove each part once its content is durable
  bool check_space = true;      // refuse what does not fit into the free space
  bool dry_run = false;         // check and count, write nothing
};

struct UnpackResult {
  std::uint64_t files = 0, bytes = 0;          // wanted; holes included
  std::uint64_t kept = 0;                      // of these files, there already with the right contents
  std::uint64_t frames = 0, packed_bytes = 0;  // to be decompressed; with a manifest only
  std::vector<std::string> paths{};            // of the files; without a manifest only
};

// With a manifest: frames in parallel, each compared with it; a run that was interrupted goes on. Without
// one: the parts as one stream of zstd frames with a tar in it, the one that made it; files get their names
// when all of it was read. input: a descriptor that the parts' bytes come from, one after the other; -1: from
// the set's parts. Errors: with code difference, bytes that are not the manifest's; members that want out of
// the directory; files that are there with other contents, without force.
UnpackResult unpack(const ChunkSet& set, int input, const UnpackOptions& options, const Context& context);

// The two ways, by themselves. feed: where the frames come from instead of parts or input; a run that was
// interrupted, or that failed, goes on at the frame where it stopped then.
UnpackResult unpack_frames(const ChunkSet& set, int input, const UnpackOptions& options,
                           const Context& context, FrameFeed* feed = nullptr);
UnpackResult unpack_stream(const ChunkSet& set, int input, const UnpackOptions& options,
                           const Context& context);
// The same of bytes from elsewhere; name: of the set.
UnpackResult unpack_stream(ByteSource& source, const std::string& name, const UnpackOptions& options,
                           const Context& context);

}  // namespace planesmith::chunks
