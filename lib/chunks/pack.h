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
  bool force = false;               // replaces what is there under this name
  bool recheck = false;             // trusts finished parts by content
  bool check_space = true;          // refuses what does not fit into the free space
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

// Reads names, sizes and holes, and checks all that can be checked before writing. Says so where the parts
// may not find room. Errors: what cannot be packed so, and at level 0, where their size is known, too little
// room.
PackPlan plan_pack(const PackOptions& options, const Context& context);

struct PackResult {
  ChunkManifest manifest;
  std::string manifest_path;
  std::size_t parts_kept = 0;  // finished before this run began
};

// Writes parts and manifest. Goes on where an interrupted run of the same stopped: finished parts stay, by
// record and size where their files have the same inodes and times, else by comparing their frames with the
// files. Where all is there, compares it with the files, and makes missing parts again, with `recheck`
// damaged ones too. Says which of these it does. Errors: files of this name that are something else's
// (without force), a second run at work on the same name.
PackResult pack(const PackPlan& plan, const PackOptions& options, const Context& context);

// What SHA256SUMS.NAME holds, as `sha256sum` prints it. Each part's SHA-256 is known.
std::string digest_list(std::span<const FileEntry> parts);

// Writes the frames one after the other to an open descriptor (a pipe or a file), and nothing else.
void pack_to_stream(const PackPlan& plan, const PackOptions& options, int fd, const Context& context);

}  // namespace planesmith::chunks
