// Makes parts: reads frames from the files, compresses them and puts them into parts, several at once.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "base/context.h"
#include "base/dir.h"
#include "chunks/block_digests.h"
#include "chunks/chunk_manifest.h"
#include "chunks/frame_grid.h"
#include "chunks/in_order.h"
#include "chunks/scan.h"

namespace planesmith::chunks {

// Digests of a file that is written from front to end (CLI.md, "Manifests").
class FileDigests {
 public:
  FileDigests(bool xxh3, bool sha256);
  void update(ConstBytes bytes);
  void finish(FileEntry& file);  // stores the digests in `file`

 private:
  bool want_xxh3_;
  std::optional<Sha256> sha256_;
  Xxh3Stream block_;
  std::uint64_t in_block_ = 0;
  std::vector<Xxh3> blocks_;
};

// `like` with the digests of this file, of the kinds that `like` has.
FileEntry digested(const File& file, FileEntry like, const Context& context);

// The source of the frames. Layout and origins must outlive it.
struct FrameSource {
  const Layout& layout;
  const std::vector<Origin>& origins;
  FrameGrid grid;
  int level = 1;
};

// As many threads and buffers as --memory allows; `memory` receives their bytes.
// Error (usage): it does not allow one thread.
Lanes lanes_for(const FrameGrid& grid, int level, std::size_t parts, const Context& context,
                std::uint64_t& memory);

struct PartRange {
  std::size_t part = 0, first = 0, end = 0;  // first, end: its frames
};

struct MadePart {
  FileEntry file;                  // without its name
  std::vector<FrameEntry> frames;  // of the part
};

struct MakeParts {
  std::vector<PartRange> parts{};
  bool xxh3 = true, sha256 = true;  // digests of the parts
  BlockDigests* digests = nullptr;  // gets the content; may be null
  // Throws if a frame's content is not the expected one. May be empty.
  std::function<void(std::size_t frame, const Xxh3& content)> check{};
  // Called by any thread when a part is complete and durable, in the directory, under staged_part()'s name.
  std::function<void(const PartRange& range, MadePart made)> done{};
};

std::string staged_part(std::size_t part);

// Writes each part into a file of its own in the directory; removes unfinished parts.
void make_parts(const FrameSource& source, const MakeParts& work, const Lanes& lanes, const Dir& directory,
                Gate& gate, const Context& context);

// Passes all frames to `take` in order.
void make_stream(const FrameSource& source, const Lanes& lanes, const Context& context,
                 const std::function<void(ConstBytes frame)>& take);

}  // namespace planesmith::chunks
