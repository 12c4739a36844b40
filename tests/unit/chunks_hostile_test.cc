// Hostile archives: bombs, names that lead outside, manifests that lie. Each is refused with a message, in
// bounded memory, and leaves no file behind.
#include <doctest/doctest.h>
#include <fcntl.h>

#include "base/error.h"
#include "base/size.h"
#include "chunks/frame.h"
#include "chunks/part_maker.h"
#include "chunks/tar.h"
#include "chunks/unpack.h"
#include "chunks_tree.h"
#include "peak_memory.h"

using namespace planesmith;
using namespace planesmith::chunks;

namespace {

std::string little_endian(std::uint64_t value, int bytes) {
  std::string text;
  for (; bytes > 0; --bytes, value >>= 8) text += static_cast<char>(value);
  return text;
}

// A zstd frame by hand (RFC 8878): what it claims to hold, and blocks of one repeated byte, 128 KiB each.
std::string frame(std::uint64_t claimed, int blocks, int window_log = 17, char byte = 'x') {
  std::string text = little_endian(0xFD2FB528, 4) + '\xC0';  // content size in 8 bytes, no checksum
  text += static_cast<char>((window_log - 10) << 3);
  text += little_endian(claimed, 8);
  for (int i = 0; i < blocks; ++i)
    text += little_endian((128u << 10) << 3 | 1 << 1 | (i + 1 == blocks ? 1 : 0), 3) + byte;
  return text;
}

// magic, "one segment, size in one byte", 0 bytes, one raw block of nothing, the last
const std::string kEmptyFrame = little_endian(0xFD2FB528, 4) + std::string("\x20\0\1\0\0", 5);

std::string repeated(const std::string& text, std::size_t times) {
  std::string out;
  out.reserve(text.size() * times);
  for (; times != 0; --times) out += text;
  return out;
}

std::string stored(const std::string& content) {
  std::string text(frame_bound(content.size()), '\0');
  text.resize(Compressor(0).compress(bytes_of(content),
                                     {reinterpret_cast<std::uint8_t*>(text.data()), text.size()}, Context{}));
  return text;
}

// A tar of one member that has a few bytes of data, whatever size its header claims.
std::string tar(Member member) {
  member.mode = 0644;
  append_extent(member.extents, 0, member.size);
  return stored(tar_header(member) + std::string(8 * kTarBlock, '\0'));
}
Member file(const std::string& path, std::uint64_t size = 0) {
  Member member;
  member.path = path;
  member.size = size;
  return member;
}
Member link(const std::string& path, MemberType type, const std::string& target) {
  Member member;
  member.path = path;
  member.type = type;
  member.target = target;
  return member;
}

std::string deep(std::size_t directories) {
  std::string path = "a";
  for (std::size_t i = 0; i < directories; ++i) path += "/a";
  return path;
}

// Unpacks, and returns why it was refused.
std::string refusal(const ChunkSet& set, const std::string& out, std::uint64_t memory) {
  Context context;
  context.memory = memory;
  UnpackOptions options;
  options.out = out;
  try {
    unpack(set, -1, options, context);
  } catch (const Error& error) {
    return error.what();
  }
  return "not refused";
}

std::size_t names_in(const std::string& directory) {
  std::size_t count = 0;
  if (std::filesystem::exists(directory))
    for (const auto& entry : std::filesystem::recursive_directory_iterator(directory))
      count += entry.path().empty() ? 0 : 1;
  return count;
}

}  // namespace

TEST_CASE("streams that must not be unpacked") {
  struct Case {
    const char* name;
    std::string stream;
    const char* reason;
  };
  const Case cases[] = {
      {"a frame that claims 2^62 bytes and holds none", frame(std::uint64_t{1} << 62, 0), "cut short"},
      {"a frame that claims a terabyte and holds less", frame(std::uint64_t{1} << 40, 100),
       "not a complete tar"},
      {"a frame that claims a terabyte and holds an empty tar", frame(std::uint64_t{1} << 40, 100, 17, '\0'),
       "cannot be decompressed"},
      {"a frame that claims a kilobyte and holds a gigabyte", frame(kKiB, 8192), "damaged"},
      {"a frame that claims what it holds, 4 GB of no tar", frame(32768 * 128 * kKiB, 32768),
       "not a complete tar"},
      {"a window of 2 GiB", frame(3 * kGiB, 1, 31),
       "its window of 2.00 GiB (2147483648 bytes) is larger than 32.0 MiB (33554432 bytes), the most that "
       "--memory allows; give more"},
      {"a window of 2 TiB", frame(kKiB, 1, 41),
       "its window of 2.00 TiB (2199023255552 bytes) is larger than 2.00 GiB (2147483648 bytes), the most "
       "that is supported"},
      {"a skippable frame without an end", little_endian(0x184D2A50, 4) + little_endian(0xFFFFFFFF, 4),
       "cut short"},
      {"skippable frames of nothing, a million",
       repeated(little_endian(0x184D2A50, 4) + std::string(4, '\0'), 1'000'000), "not a complete tar"},
      {"empty frames, a million", repeated(kEmptyFrame, 1'000'000), "not a complete tar"},
      {"a frame that claims 2^63 bytes", frame(std::uint64_t{1} << 63, 100), "not a complete tar"},
      {"a member of 2^60 bytes", tar(file("large", std::uint64_t{1} << 60)), "not enough space"},
      {"a member whose data are missing", tar(file("cut", 1'000'000)), "not a complete tar"},
      {"an absolute name", tar(file("/etc/planesmith")), "not a name inside"},
      {"a name that climbs", tar(file("a/../../b")), "not a name inside"},
      {"a name without end", tar(file(deep(40'000))), "than the system allows"},
      {"a component without end", tar(file("a/" + std::string(256, 'b'))), "than the system allows"},
      {"a link to a file outside", tar(link("l", MemberType::symlink, "/etc/passwd")), "leads out"},
      {"a link that climbs", tar(link("a/l", MemberType::symlink, "../../x")), "leads out"},
      {"a hard link to a file outside", tar(link("h", MemberType::hardlink, "../x")),
       "not a file of the archive"},
      {"nothing", "", "not a complete tar"},
      {"text", "a text and no archive", "no zstd frame"},
  };
  std::size_t refused = 0;
  for (const Case& c : cases) {
    const std::string name = c.name;
    CAPTURE(name);
    const Scratch scratch;
    put_file(scratch / "part", c.stream);
    const ChunkSet set{
        .name = "", .manifest = {}, .manifest_path = "", .parts = {scratch / "part"}, .extra = {}};
    const auto work = [&] {
      const std::string why = refusal(set, scratch / "out", 64 * kMiB);
      INFO(why);
      const bool as_expected = why.find(c.reason) != std::string::npos;
      CHECK(as_expected);
      return as_expected;
    };
    const bool as_expected = work();
    CHECK(names_in(scratch / "out") == 0);
    refused += as_expected ? 1 : 0;
    if (kMemoryIsMeasurable && as_expected) CHECK(peak_memory_of(work) < 160 * kMiB);
  }
  MESSAGE("streams refused: ", refused);
}

TEST_CASE("sets whose manifest and parts were made to harm") {
  struct Case {
    const char* name;
    std::function<void(ChunkManifest&, std::string& part)> harm;
    const char* reason;
  };
  // Replaces the second of three frames by one of another size, in the manifest too.
  const auto second = [](const std::string& hostile) {
    return [=](ChunkManifest& m, std::string& part) {
      part.replace(m.frames[1].offset, m.frames[1].size, hostile);
      const std::uint64_t moved = hostile.size() - m.frames[1].size;
      m.frames[1].size = hostile.size();
      for (std::size_t f = 2; f < m.frames.size(); ++f) m.frames[f].offset += moved;
      m.parts[0].size = part.size();
      FileDigests digests(true, false);
      digests.update(bytes_of(part));
      digests.finish(m.parts[0]);
    };
  };
  const auto member = [](const std::function<void(Member&)>& change) {
    return [=](ChunkManifest& m, std::string&) {
      for (Member& found : m.layout.members())
        if (found.path == "tree/noise") change(found);
    };
  };
  const Case cases[] = {
      {"a frame that claims 2^40 bytes", second(frame(std::uint64_t{1} << 40, 1)),
       "claims 1099511627776 bytes"},
      {"a frame that holds more than it claims", second(frame(256 * kKiB, 1000)), "is damaged"},
      {"a frame that holds less than it claims", second(frame(256 * kKiB, 1)), "is damaged"},
      {"a frame with a window of 2 TiB", second(frame(256 * kKiB, 2, 41)),
       "its window of 2.00 TiB (2199023255552 bytes) is larger than 2.00 GiB (2147483648 bytes)"},
      {"a frame of other content", second(frame(256 * kKiB, 2)), "XXH3"},
      {"a member larger than the tar", member([](Member& m) { m.size = std::uint64_t{1} << 50; }),
       "do not belong together"},
      {"a member with data behind its end", member([](Member& m) {
         m.extents = {{0, m.size + 1, 0}};
       }),
       "sparse map"},
      {"a member that climbs", member([](Member& m) { m.path = "tree/../../x"; }), "does not stay below"},
      {"an absolute member", member([](Member& m) { m.path = "/tree"; }), "does not stay below"},
      {"a member twice", member([](Member& m) { m.path = "tree"; }), "out of order"},
      {"a name that is a path", [](ChunkManifest& m, std::string&) { m.name = "../set"; }, "not a file name"},
  };
  std::size_t refused = 0;
  for (const Case& c : cases) {
    const std::string name = c.name;
    CAPTURE(name);
    const Scratch scratch;
    std::filesystem::create_directories(scratch / "tree");
    put_file(scratch / "tree/noise", chunks_tree::noise(600'000, 1));
    PackOptions options;
    options.sources = {scratch / "tree"};
    options.name = "set";
    options.out = scratch / "parts";
    options.frame_size = 256 * kKiB;
    options.sha256 = false;
    ChunkManifest manifest = chunks_tree::pack(options, Context{}).manifest;
    REQUIRE(manifest.frames.size() == 3);
    const std::string part_path = options.out + "/set.tar.zst.part.000",
                      manifest_path = options.out + "/manifest.set.json";
    std::string part = file_contents(part_path);
    c.harm(manifest, part);
    put_file(part_path, part);
    put_file(manifest_path, to_json(manifest));
    const auto why = [&]() -> std::string {
      try {
        const Context context{};
        return refusal(find_chunks({options.out}, "set", "", context), scratch / "out", 64 * kMiB);
      } catch (const Error& error) {
        return error.what();
      }
    }();
    INFO(why);
    const bool as_expected = why.find(c.reason) != std::string::npos;
    CHECK(as_expected);
    CHECK(names_in(scratch / "out") == 0);
    refused += as_expected ? 1 : 0;
  }
  MESSAGE("sets refused: ", refused);
}
