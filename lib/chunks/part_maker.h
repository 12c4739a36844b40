// Making parts: frames are read from the files, compressed and put into parts, several parts at once.
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
  void finish(FileEntry& file);  // puts them in

 private:
  bool want_xxh3_;
  std::optional<Sha256> sha256_;
  Xxh3Stream block_;
  std::uint64_t in_block_ = 0;
  std::vector<Xxh3> blocks_;
};

// `like` with the digests that this file has, of the kinds that `like` has. Reads it with one buffer.
FileEntry digested(const File& file, FileEntry like, const Context& context);

// What the frames are made of. Layout and origins must outlive it.
struct FrameSource {
  const Layout& layout;
  const std::vector<Origin>& origins;
  FrameGrid grid;
  int level = 1;
};

// Buffers and threads for it, as --memory allows. Errors (usage): it does not allow one thread.
Lanes lanes_for(const FrameGrid& grid, int level, std::size_t parts, const Context& context,
                std::uint64_t& memory);

struct PartRange {
  std::size_t part = 0, first = 0, end = 0;  // its frames
};

struct MadePart {
  FileEntry file;                  // without its name
  std::vector<FrameEntry> frames;  // of it
};

struct MakeParts {
  std::vector<PartRange> parts{};
  bool xxh3 = true, sha256 = true;  // digests of the parts
  BlockDigests* digests = nullptr;  // takes in the content; may be absent
  // Whether a frame's content is what it should be; may throw. May be absent.
  std::function<void(std::size_t frame, const Xxh3& content)> check{};
  // A part is whole and durable, in the directory, under the name staged_part() gives. By any thread.
  std::function<void(const PartRange& range, MadePart made)> done{};
};

std::string staged_part(std::size_t part);

// Every part is written into the directory by itself; one that is not finished does not stay.
void make_parts(const FrameSource& source, const MakeParts& work, const Lanes& lanes, const Dir& directory,
                Gate& gate, const Context& context);

// Receives all frames in order.
void make_stream(const FrameSource& source, const Lanes& lanes, const Context& context,
                 const std::function<void(ConstBytes frame)>& take);

}  // namespace planesmith::chunks
