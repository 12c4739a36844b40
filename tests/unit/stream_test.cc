// Reading ahead: what arrives and what is thrown if a read fails or a stop comes, at every point.
#include "base/stream.h"

#include <doctest/doctest.h>
#include <errno.h>

#include <chrono>
#include <thread>

#include "base/error.h"
#include "scratch.h"

using namespace planesmith;

namespace {

constexpr std::uint64_t kPieces = 9, kSize = kPieces * kPiece - 1000;

// Reads fail from one piece on, or are slow.
class BadDisk : public Os {
 public:
  ssize_t pread(int fd, void* to, std::size_t n, off_t offset) override {
    if (slow) std::this_thread::sleep_for(std::chrono::milliseconds(5));
    if (static_cast<std::uint64_t>(offset) / kPiece >= fails_at) {
      errno = EIO;
      return -1;
    }
    return Os::pread(fd, to, n, offset);
  }
  std::uint64_t fails_at = kPieces;
  bool slow = false;
};

struct Bench {
  Scratch scratch;
  std::string path = scratch / "file";
  std::vector<std::uint8_t> contents = std::vector<std::uint8_t>(kSize), buffer = contents;
  BadDisk os;

  Bench() {
    for (std::uint64_t i = 0; i < kSize; ++i) contents[i] = static_cast<std::uint8_t>(i / kPiece + i % 251);
    File::create(posix(), path).write(contents, 0);
    buffer.resize(kStreamBuffer);
  }
  // How much arrived, all of it right and in order.
  std::uint64_t run(const Context& context) {
    std::uint64_t taken = 0;
    try {
      stream_ahead(context, File::open_read(os, path), 0, kSize, buffer, [&](ConstBytes piece) {
        CHECK(std::equal(piece.begin(), piece.end(), contents.begin() + static_cast<std::ptrdiff_t>(taken)));
        taken += piece.size();
      });
    } catch (const Error& error) {
      failure = error.what();
    }
    return taken;
  }
  std::string failure;
};

}  // namespace

TEST_CASE("everything arrives, in order") {
  Bench bench;
  CHECK(bench.run(Context{.os = bench.os}) == kSize);
  CHECK(bench.failure.empty());
}

TEST_CASE("a read that fails: what was read before arrives, then the error") {
  Bench bench;
  for (int round = 0; round < 20; ++round)
    for (std::uint64_t piece = 0; piece < kPieces; ++piece) {
      bench.os.fails_at = piece;
      bench.failure.clear();
      CHECK(bench.run(Context{.os = bench.os}) == piece * kPiece);
      CHECK(bench.failure.find("read failed") != std::string::npos);
    }
}

TEST_CASE("a stop before, while and after the reader starts") {
  Bench bench;
  for (const bool slow : {false, true})
    for (int round = 0; round < 50; ++round) {
      bench.os.slow = slow;
      bench.failure.clear();
      Stop stop;
      std::thread later([&] {
        std::this_thread::sleep_for(std::chrono::microseconds(20 * round));
        stop.request(2);
      });
      if (round == 0) stop.request(2);
      bench.run(Context{.os = bench.os, .stop = &stop});
      later.join();
    }
  CHECK(bench.os.slow);
}

TEST_CASE("an error of the taker ends the reading") {
  Bench bench;
  const File file = File::open_read(bench.os, bench.path);
  for (int at = 0; at < static_cast<int>(kPieces); ++at) {
    int pieces = 0;
    CHECK_THROWS_AS(stream_ahead(Context{}, file, 0, kSize, bench.buffer,
                                 [&](ConstBytes) {
                                   if (pieces++ == at) throw Error("x", "enough");
                                 }),
                    Error);
    CHECK(pieces == at + 1);
  }
}
