// Frames that any zstd can read.
#include <doctest/doctest.h>
#include <zstd.h>

#include "base/error.h"
#include "chunks/frame.h"
#include "chunks_tree.h"

using namespace planesmith;
using namespace planesmith::chunks;
using chunks_tree::noise;

namespace {

std::string compressed(int level, std::string_view content) {
  std::string frame(frame_bound(content.size()), '\0');
  Compressor compressor(level);
  frame.resize(compressor.compress(bytes_of(content),
                                   {reinterpret_cast<std::uint8_t*>(frame.data()), frame.size()}, Context{}));
  return frame;
}

std::string decompressed(std::string_view frame, std::size_t size) {
  std::string content(size, '\0');
  Decompressor().decompress(bytes_of(frame), {reinterpret_cast<std::uint8_t*>(content.data()), size});
  return content;
}

}  // namespace

TEST_CASE("every level and length comes back, from this decoder and from the plain one") {
  for (const int level : {0, 1, 3, 19})
    for (const std::size_t size : {std::size_t{0}, std::size_t{1}, std::size_t{4096}, std::size_t{131071},
                                   std::size_t{131072}, std::size_t{131073}, std::size_t{700'000}}) {
      CAPTURE(level);
      CAPTURE(size);
      std::string content = noise(size, 7);
      std::fill(content.begin() + static_cast<std::ptrdiff_t>(size / 2), content.end(), 'z');
      const std::string frame = compressed(level, content);
      CHECK(frame == compressed(level, content));
      CHECK(decompressed(frame, size) == content);
      std::string plain(size, '\0');
      CHECK(ZSTD_decompress(plain.data(), size, frame.data(), frame.size()) == size);
      CHECK(plain == content);
      CHECK(ZSTD_getFrameContentSize(frame.data(), frame.size()) == size);
      CHECK((frame[4] & 4) != 0);  // the checksum's flag in the frame header
      if (level == 0)
        CHECK(frame.size() == 10 + std::max<std::size_t>((size + 131071) / 131072, 1) * 3 + size + 4);
      else if (size > 100'000)
        CHECK(frame.size() < size * 3 / 4);
    }
}

TEST_CASE("the window that a frame claims is read from its head, even where no decoder has it") {
  const auto window = [](std::initializer_list<int> head) {
    std::string bytes("\x28\xB5\x2F\xFD", 4);
    for (const int byte : head) bytes += static_cast<char>(byte);
    return window_of(bytes_of(bytes));
  };
  CHECK(window({0, 0}) == 1024);
  CHECK(window({0, 7}) == 1024 + 7 * 128);
  CHECK(window({0, 21 << 3}) == kLargestWindow);
  CHECK(window({0, 22 << 3}) == 2 * kLargestWindow);
  CHECK(window({0, 31 << 3}) == std::uint64_t{1} << 41);
  CHECK(window({0, 255}) == std::uint64_t{15} << 38);
  CHECK(window({0x20, 200}) == 200);  // a single segment: its content
  CHECK(window({0xA0, 0, 0, 0, 0x80}) == kLargestWindow);
  CHECK(window({0}) == 0);          // cut short
  CHECK(window({1 << 3, 0}) == 0);  // a reserved bit
  CHECK(window_of(bytes_of("no frame")) == 0);
}

TEST_CASE("a frame that is damaged, cut short or not what it should be is refused") {
  const std::string content = noise(200'000, 8);
  for (const int level : {0, 1}) {
    const std::string frame = compressed(level, content);
    CHECK_THROWS_AS(decompressed(frame, content.size() - 1), Error);
    CHECK_THROWS_AS(decompressed(frame, content.size() + 1), Error);
    CHECK_THROWS_AS(decompressed(frame.substr(0, frame.size() - 1), content.size()), Error);
    CHECK_THROWS_AS(decompressed("", content.size()), Error);
    CHECK_THROWS_AS(decompressed(content, content.size()), Error);
    for (std::size_t at = 0; at < frame.size(); at += 1 + frame.size() / 97) {
      std::string damaged = frame;
      damaged[at] ^= 0x10;
      bool found = false;
      try {
        found =
            decompressed(damaged, content.size()) == content;  // a bit that zstd does not use may be flipped
      } catch (const Error&) {
        found = true;
      }
      CAPTURE(at);
      CHECK(found);
    }
  }
}
