#include "chunks/verify_chunks.h"

#include <fmt/format.h>
#include <string.h>

#include <algorithm>
#include <map>
#include <mutex>

#include "base/error.h"
#include "base/parallel.h"
#include "base/size.h"
#include "base/stream.h"
#include "chunks/block_digests.h"
#include "chunks/frame_reader.h"
#include "chunks/part_maker.h"
#include "chunks/tar.h"

namespace planesmith::chunks {
namespace {

class Findings {
 public:
  void add(Finding finding) {
    const std::lock_guard<std::mutex> lock(mutex_);
    all_.push_back(std::move(finding));
  }
  std::vector<Finding> take() {
    std::sort(all_.begin(), all_.end(), [](const Finding& a, const Finding& b) {
      return std::tie(a.member, a.part, a.offset, a.what) < std::tie(b.member, b.part, b.offset, b.what);
    });
    return std::move(all_);
  }

 private:
  std::mutex mutex_;
  std::vector<Finding> all_;
};

// Flags the parts that are there with the right size; adds findings for the others.
std::vector<bool> check_sizes(const ChunkSet& set, const Context& context, Findings& findings) {
  std::vector<bool> usable(set.parts.size(), false);
  for (std::size_t p = 0; p < set.parts.size(); ++p) {
    const FileEntry& part = set.manifest->parts[p];
    if (set.parts[p].empty()) {
      findings.add({part.path, "", {}, "is missing"});
      continue;
    }
    const std::uint64_t size = File::open_read(context.os, set.parts[p]).size();
    usable[p] = size == part.size;
    if (!usable[p])
      findings.add({part.path, "", {}, fmt::format("has {} bytes, {} were expected", size, part.size)});
  }
  for (const std::string& extra : set.extra)
    findings.add({name_of(extra), "", {}, "is not part of this set, but `cat` would read it too"});
  return usable;
}

void check_blocks(const ChunkSet& set, const std::vector<bool>& usable, const Context& context,
                  Findings& findings) {
  struct Block {
    std::size_t part, index;
  };
  std::vector<Block> blocks;
  for (std::size_t p = 0; p < set.parts.size(); ++p)
    for (std::size_t b = 0; usable[p] && b < set.manifest->parts[p].blocks.size(); ++b)
      blocks.push_back({p, b});
  StreamBuffers buffers(context);
  parallel_for(blocks.size(), buffers.workers(), [&](std::size_t i, int w) {
    const FileEntry& part = set.manifest->parts[blocks[i].part];
    const std::uint64_t offset = blocks[i].index * kTreeBlock,
                        size = std::min(kTreeBlock, part.size - offset);
    Xxh3Stream hash;
    stream(context, File::open_read(context.os, set.parts[blocks[i].part]), offset, size, buffers.of(w),
           [&](ConstBytes piece) { hash.update(piece); });
    if (hash.finish() != part.blocks[blocks[i].index])
      findings.add(
          {part.path, "", offset, fmt::format("the {} from here on have another XXH3", short_size(size))});
  });
}

void check_sha256(const ChunkSet& set, const std::vector<bool>& usable, const Context& context,
                  Findings& findings) {
  StreamBuffers buffers(context);
  parallel_for(set.parts.size(), buffers.workers(), [&](std::size_t p, int w) {
    const FileEntry& part = set.manifest->parts[p];
    if (!usable[p]) return;
    Sha256 sha;
    stream_ahead(context, File::open_read(context.os, set.parts[p]), 0, part.size, buffers.of(w),
                 [&](ConstBytes piece) { sha.update(piece); });
    const std::string found = hex(sha.finish());
    if (found != part.sha256)
      findings.add({part.path, "", {}, fmt::format("has SHA-256 {} instead of {}", found, part.sha256)});
  });
}

// Checks tar headers, which may cross frames, and the padding between the members.
class HeaderCheck {
 public:
  HeaderCheck(const Layout& layout, Findings& findings) : layout_(layout), findings_(findings) {}

  void add(std::uint64_t stream_offset, ConstBytes bytes) {
    layout_.visit(stream_offset, bytes.size(), [&](const Piece& piece) {
      const ConstBytes part = bytes.subspan(piece.stream_offset - stream_offset, piece.size);
      if (piece.kind == Piece::Kind::header) add_header(piece, part);
      if (piece.kind == Piece::Kind::padding &&
          std::any_of(part.begin(), part.end(), [](std::uint8_t b) { return b != 0; }))
        findings_.add({"", "", piece.stream_offset, "the tar has data between its members"});
    });
  }

 private:
  struct Partial {
    std::string bytes;
    std::uint64_t filled = 0;
  };

  void add_header(const Piece& piece, ConstBytes part) {
    const Member& member = layout_.members()[piece.member];
    const std::uint64_t size = member.data_offset - member.offset;
    std::string header;
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      Partial& partial = partial_[piece.member];
      partial.bytes.resize(size);
      memcpy(partial.bytes.data() + piece.offset, part.data(), part.size());
      partial.filled += part.size();
      if (partial.filled < size) return;
      header = std::move(partial.bytes);
      partial_.erase(piece.member);
    }
    try {
      compare(parse_tar_header(header), member);
    } catch (const Error& error) {
      findings_.add({"", member.path, {}, fmt::format("its tar header cannot be read: {}", error.reason())});
    }
  }

  void compare(const Member& found, const Member& expected) {
    const auto differs = [&](const char* what) {
      findings_.add({"", expected.path, {}, fmt::format("its tar header has another {}", what)});
    };
    if (found.path != expected.path) differs("name");
    if (found.type != expected.type) differs("type");
    if (found.mode != expected.mode) differs("mode");
    if (found.size != expected.size) differs("size");
    if (found.target != expected.target) differs("link target");
    if (found.extents != expected.extents) differs("sparse map");
  }

  const Layout& layout_;
  Findings& findings_;
  std::mutex mutex_;
  std::map<std::size_t, Partial> partial_;
};

void check_members(const ChunkSet& set, const std::vector<bool>& usable, int threads, const Context& context,
                   Findings& findings) {
  const ChunkManifest& m = *set.manifest;
  Gate gate;
  BlockDigests digests(m.layout, gate);
  HeaderCheck headers(m.layout, findings);
  std::vector<std::unique_ptr<FrameReader>> readers(static_cast<std::size_t>(threads));
  parallel_for(m.frames.size(), threads, [&](std::size_t f, int w) {
    gate.guard([&] {
      context.check_stop();
      auto& reader = readers[static_cast<std::size_t>(w)];
      if (!reader) reader = std::make_unique<FrameReader>(m);
      const std::size_t part = m.frames[f].part;
      const std::uint64_t at = m.grid().begin(f);
      bool whole = usable[part];
      if (whole) try {
          const File file = File::open_read(context.os, set.parts[part]);
          headers.add(at, reader->content(reader->read(file, f), f, set.parts[part]));
        } catch (const Error& error) {
          if (error.code() != ErrorCode::difference) throw;
          findings.add({m.parts[part].path, "", error.offset(), error.reason()});
          whole = false;
        }
      const Bytes content = reader->buffer(f);
      if (!whole) memset(content.data(), 0, content.size());  // so that its members are findings too
      digests.add(at, content, {0, m.layout.size()});
      context.progress.advance(content.size());
    });
  });
  for (std::size_t i = 0; i < m.layout.members().size(); ++i) {
    const Member& member = m.layout.members()[i];
    const std::vector<Xxh3> found = digests.of(i);
    for (std::size_t b = 0; b < found.size(); ++b)
      if (found[b] != member.blocks[b]) {
        findings.add({"", member.path, b * kDigestBlock, "the content from here on has another XXH3"});
        break;
      }
  }
}

}  // namespace

std::vector<Finding> verify_chunks(const ChunkSet& set, const VerifyOptions& options,
                                   const Context& context) {
  const ChunkManifest& m = *set.manifest;
  const int threads = options.deep ? FrameReader::threads(m, context) : 0;  // refuses before parts are read
  Findings findings;
  const std::vector<bool> usable = check_sizes(set, context, findings);
  const bool have_xxh3 = m.parts[0].xxh3.has_value(), have_sha256 = !m.parts[0].sha256.empty();
  if (have_xxh3 && (options.xxh3 || !have_sha256)) {
    context.progress.begin("comparing XXH3 of the parts", m.packed_size());
    check_blocks(set, usable, context, findings);
  }
  if (have_sha256 && (options.sha256 || !have_xxh3)) {
    context.progress.begin("comparing SHA-256 of the parts", m.packed_size());
    check_sha256(set, usable, context, findings);
  }
  if (options.deep) {
    context.progress.begin("decompressing and comparing members", m.layout.size());
    check_members(set, usable, threads, context, findings);
  }
  context.progress.end();
  return findings.take();
}

}  // namespace planesmith::chunks
