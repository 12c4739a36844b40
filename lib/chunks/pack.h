// Packing: files -> tar -> independent zstd frames -> parts -> manifest.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/context.h"
#include "chunks/chunk_manifest.h"
#include "chunks/frame_grid.h"
#include "chunks/in_order.h"
#include "chunks/layout.h"
#include "chunks/scan.h"

namespace planesmith::chunks {

inline constexpr int kDefaultLevel = 1;
inline constexpr std::uint64_t kDefaultPartSize = 16'000'000'000, kDefaultFrameSize = 16 << 20;

struct PackOptions : ScanOptions {
  std::string name;  // of the parts: NAME.tar.zst.part.NNN
  std::string out;   // directory
  std::uint64_t part_size = kDefaultPartSize, frame_size = kDefaultFrameSize;
  int level = kDefaultLevel;        // 0..19; 0: stored
  bool xxh3 = true, sha256 = true;  // digests of the parts
  bool force = false;               // replaces files of this name
  bool recheck = false;             // compares the contents of finished parts before it trusts them
  bool check_space = true;          // an Error if the parts do not fit into the free space
};

struct PackPlan {
  Layout layout;
  std::vector<Origin> origins;  // of each member
  FrameGrid grid{};
  std::uint64_t most_bytes = 0;  // of all parts together, if nothing can be compressed; at level 0 exactly
  Lanes lanes{};                 // as many threads as --memory allows
  std::uint64_t memory = 0;      // bytes of buffers

  std::uint64_t content_size() const;  // of all files, holes included
};

// Reads names, sizes and holes, and checks all that can be checked before writing. A note says if space may
// run out. Errors: options that contradict each other, sources that cannot be packed, and at level 0, where
// the size is known, too little space.
PackPlan plan_pack(const PackOptions& options, const Context& context);

struct PackResult {
  ChunkManifest manifest;
  std::string manifest_path;
  std::size_t parts_kept = 0;  // finished before this run began
};

// Writes parts and manifest. Continues an interrupted run of the same command: finished parts stay, by record
// and size if their files have the same inodes and times, else after comparing their frames with the files.
// If the set is complete, compares it with the files and makes missing parts again, with `recheck` also
// damaged ones. Says which of these it does. Errors: files of this name of another origin (without force), a
// second run that packs under the same name.
PackResult pack(const PackPlan& plan, const PackOptions& options, const Context& context);

// The contents of SHA256SUMS.NAME, as `sha256sum` prints them. Each part's SHA-256 must be known.
std::string digest_list(std::span<const FileEntry> parts);

// Writes only the frames, one after the other, to an open descriptor (a pipe or a file).
void pack_to_stream(const PackPlan& plan, const PackOptions& options, int fd, const Context& context);

}  // namespace planesmith::chunks
