// Writes frames into parts, and remembers each finished part so that an interrupted run can go on behind it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/context.h"
#include "base/file.h"
#include "chunks/block_digests.h"
#include "chunks/chunk_manifest.h"

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

struct PartSettings {
  std::string dir, name;
  std::size_t digits = 3;
  std::uint64_t part_size = 0, frame_size = 0, stream_size = 0;
  bool xxh3 = true, sha256 = true;
  std::string fingerprint;  // of all that the parts' bytes depend on
};

// A part is written as NAME.tar.zst.part.NNN.tmp. When it is whole and durable, NAME.tar.zst.record.NNN is
// written (its digests, its frames, the digests of the members' blocks that end in it), and then the part
// gets its name. So a part that has its name is always known.
class PartWriter {
 public:
  PartWriter(PartSettings settings, const Context& context, BlockDigests& digests);
  PartWriter(const PartWriter&) = delete;
  ~PartWriter();  // removes a part that is not finished

  // Takes over the parts that an interrupted run left finished, by record and size, or with `recheck` by
  // content. Returns the number of their frames; the next to append.
  std::size_t resume(bool recheck);
  // The next frame; those of a part that is complete with it or without it become durable.
  void append(ConstBytes frame, const Xxh3& content);
  void finish();  // after the last frame

  const std::vector<FileEntry>& parts() const { return parts_; }
  const std::vector<FrameEntry>& frames() const { return frames_; }

 private:
  std::string path(const std::string& name) const { return join(settings_.dir, name); }
  std::uint64_t content_end() const;  // in the stream: of the frames so far
  bool take_over(std::size_t part, bool recheck);
  void close_part();

  const PartSettings settings_;
  const Context& context_;
  BlockDigests& digests_;
  std::vector<FileEntry> parts_;  // finished
  std::vector<FrameEntry> frames_;
  std::optional<File> file_;  // the part at work
  std::optional<FileDigests> file_digests_;
  std::uint64_t size_ = 0, synced_ = 0;  // of it; and what is on its way to the disk
  std::uint64_t part_begin_ = 0;         // in the stream: of its content
};

// Names of what runs under this name leave behind while at work: unfinished parts and records.
std::vector<std::string> unfinished_files(Os& os, const std::string& dir, const std::string& name);
// Names of its parts, of its manifest (also an earlier version's) and of its list of digests, as far as they
// are there.
std::vector<std::string> finished_files(Os& os, const std::string& dir, const std::string& name);

}  // namespace planesmith::chunks
