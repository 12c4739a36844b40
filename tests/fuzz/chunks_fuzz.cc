// Input: what `unpack` may be given. The first byte says what follows:
//   z  zstd frames            t  a tar, which is packed into stored frames here
//   m  a manifest, a NUL, the parts one after the other
//   c  a manifest, a NUL, the content of the frames: digests and sizes are set right, so that what the
//   members say is
//      what is tried
// Whatever comes, nothing is made outside the directory, memory stays bounded, and a refusal leaves only what
// is right.
#include "base/error.h"
#include "base/size.h"
#include "chunks/chunk_set.h"
#include "chunks/frame.h"
#include "chunks/unpack.h"
#include "chunks_tree.h"
#include "fuzz/memory_tree.h"
#include "fuzz/require.h"

using namespace planesmith;
using namespace planesmith::chunks;

namespace {

constexpr const char* kOut = "out";

std::string stored(std::string_view content) {
  std::string frame(frame_bound(content.size()), '\0');
  const Bytes room(reinterpret_cast<std::uint8_t*>(frame.data()), frame.size());
  frame.resize(Compressor(0).compress(bytes_of(content), room, Context{}));
  return frame;
}

std::string slice(std::string_view text, std::uint64_t begin, std::uint64_t size) {
  std::string piece(begin < text.size() ? text.substr(begin, size) : "");
  piece.resize(size, '\0');
  return piece;
}

// Makes the manifest's frames those of this content, all in one part. False: too large to try.
bool fit(ChunkManifest& manifest, std::string_view content, std::string& parts) {
  if (manifest.layout.size() > kMiB) return false;
  FileEntry part = manifest.parts[0];
  for (std::size_t f = 0; f < manifest.frames.size(); ++f) {
    const std::string piece = slice(content, manifest.grid().begin(f), manifest.grid().size(f));
    const std::string frame = stored(piece);
    manifest.frames[f] = {0, parts.size(), frame.size(), Xxh3::of(bytes_of(piece))};
    parts += frame;
  }
  part.size = parts.size();
  manifest.parts = {part};
  return true;
}

void check_tree(const MemoryTree& os, bool whole, bool by_frame) {
  const std::string inside = std::string(kOut) + "/", staging = inside + ".set.unpack";
  for (const auto& [path, node] : os.nodes()) {
    require(path == "." || path == kOut || path.starts_with(inside));
    if (whole) require(!path.starts_with(staging));
    // A stream is found whole or not at its end only: until then nothing has a name.
    if (!whole && !by_frame && !path.starts_with(staging)) require(!S_ISREG(node->mode));
    if (S_ISLNK(node->mode)) require(!node->target.starts_with('/'));
    require((node->mode & (S_ISUID | S_ISGID)) == 0);
  }
}

// The files of a set that was unpacked are what its manifest says of the content.
void check_contents(MemoryTree& os, const ChunkManifest& manifest, std::string_view content) {
  for (const Member& member : manifest.layout.members()) {
    if (member.type != MemberType::file) continue;
    const auto node = os.nodes().find(std::string(kOut) + "/" + member.path);
    require(node != os.nodes().end() && node->second->size == static_cast<off_t>(member.size));
    const int fd = os.open(node->first.c_str(), O_RDONLY, 0);
    for (const Extent& extent : member.extents) {
      std::string found(extent.size, '\0');
      require(os.pread(fd, found.data(), found.size(), static_cast<off_t>(extent.offset)) ==
              static_cast<ssize_t>(found.size()));
      require(found == slice(content, member.data_offset + extent.packed, extent.size));
    }
    os.close(fd);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const std::string_view text(reinterpret_cast<const char*>(data) + 1, size - 1);
  const char kind = static_cast<char>(data[0]);
  MemoryTree os;
  ChunkSet set;
  set.name = "set";
  std::string_view content;
  if (kind == 'z') {
    os.input = text;
  } else if (kind == 't') {
    os.input = stored(text);
  } else if (kind == 'm' || kind == 'c') {
    const std::size_t nul = std::min(text.find('\0'), text.size());
    content = text.substr(std::min(nul + 1, text.size()));
    try {
      set.manifest = chunks_tree::read_manifest(text.substr(0, nul), "m");
      const std::string again = to_json(*set.manifest);
      require(to_json(chunks_tree::read_manifest(again, "again")) == again);
    } catch (const Error& error) {
      require(error.path() != "again");
      return 0;
    }
    if (kind == 'm') os.input = content;
    if (kind == 'c' && !fit(*set.manifest, content, os.input)) return 0;
    set.name = set.manifest->name;
    if (set.name != "set") return 0;
    set.parts.resize(set.manifest->parts.size());
  } else {
    return 0;
  }
  const Context context{.os = os, .memory = 16 * kMiB};
  bool whole = false;
  try {
    UnpackOptions options;
    options.out = kOut;
    unpack(set, 0, options, context);
    whole = true;
  } catch (const Error&) {
  }
  check_tree(os, whole, set.manifest.has_value());
  if (whole && kind == 'c') check_contents(os, *set.manifest, content);
  return 0;
}
