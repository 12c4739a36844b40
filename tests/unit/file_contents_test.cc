// Copying and comparing files: holes are zeros and are not read, and a stop ends the work.
#include "base/file_contents.h"

#include <doctest/doctest.h>
#include <errno.h>
#include <signal.h>

#include <algorithm>
#include <functional>

#include "base/error.h"
#include "scratch.h"

using namespace planesmith;

namespace {

// Counts what is read. Shares no blocks and, optionally, knows no holes.
class CountingOs : public Os {
 public:
  bool knows_holes = true;
  std::function<void()> after_read;
  std::uint64_t bytes_read = 0, largest = 0;

  ssize_t pread(int fd, void* to, std::size_t n, off_t offset) override {
    if (bytes_read > kGiB) {  // not terabytes, should holes be read
      errno = EIO;
      return -1;
    }
    const ssize_t done = Os::pread(fd, to, n, offset);
    bytes_read += static_cast<std::uint64_t>(std::max<ssize_t>(done, 0));
    largest = std::max<std::uint64_t>(largest, n);
    if (after_read) after_read();
    return done;
  }
  off_t lseek(int fd, off_t offset, int whence) override {
    if (knows_holes) return Os::lseek(fd, offset, whence);
    errno = EINVAL;
    return -1;
  }
  int clone_range(int, std::uint64_t, int, std::uint64_t, std::uint64_t) override {
    errno = EOPNOTSUPP;
    return -1;
  }
};

struct Data {
  std::uint64_t offset;
  std::string bytes;
};

// A file of this size that is a hole except for the data.
void make_file(const std::string& path, std::uint64_t size, const std::vector<Data>& data) {
  File file = File::create(posix(), path);
  file.truncate(size);
  for (const Data& each : data) file.write(bytes_of(each.bytes), each.offset);
}

std::uint64_t allocated(const std::string& path) {
  return static_cast<std::uint64_t>(status(posix(), path).st_blocks) * 512;
}

struct Bench {
  Scratch scratch;
  CountingOs os;
  Stop stop;
  const std::string a = scratch / "a", b = scratch / "b";

  bool same() {
    const Context context{.os = os, .stop = &stop};
    const File left = File::open_read(os, a), right = File::open_read(os, b);
    const bool found = same_contents(context, left, right);
    CHECK(same_contents(context, right, left) == found);
    CHECK(same_contents(context, left, left));
    return found;
  }
};

constexpr std::uint64_t kTiB = 1024 * kGiB, kSize = 5 * kMiB + 77;

}  // namespace

TEST_CASE("files are the same if their bytes are, wherever their holes are") {
  Bench bench;
  const std::string zeros(kMiB, '\0'), text(100'000, 'x');
  for (const bool knows_holes : {true, false}) {
    bench.os.knows_holes = knows_holes;
    CAPTURE(knows_holes);
    make_file(bench.a, 0, {});
    make_file(bench.b, 0, {});
    CHECK(bench.same());
    make_file(bench.b, 1, {});
    CHECK_FALSE(bench.same());
    make_file(bench.a, 1, {{0, std::string(1, '\0')}});
    CHECK(bench.same());

    make_file(bench.a, kSize, {{2 * kMiB - 50'000, text}});
    make_file(bench.b, kSize, {{2 * kMiB - 50'000, text}});
    CHECK(bench.same());  // holes on both sides
    make_file(bench.b, kSize,
              {{0, zeros}, {3 * kMiB, zeros}, {kSize - 5, std::string(4, '\0')}, {2 * kMiB - 50'000, text}});
    CHECK(bench.same());  // zeros for holes
    make_file(bench.a, kSize, {{0, zeros + zeros + zeros + zeros + zeros}});
    make_file(bench.b, kSize, {});
    CHECK(bench.same());  // a hole from end to end
    make_file(bench.b, kSize + 1, {});
    CHECK_FALSE(bench.same());
    for (const std::uint64_t at : {std::uint64_t{0}, kMiB - 1, kMiB, 3 * kMiB + 4095, kSize - 1}) {
      CAPTURE(at);
      make_file(bench.b, kSize, {{at, "x"}});
      CHECK_FALSE(bench.same());  // data for zeros
      make_file(bench.a, kSize, {});
      CHECK_FALSE(bench.same());  // data for a hole
      make_file(bench.a, kSize, {{at, "y"}});
      CHECK_FALSE(bench.same());
      make_file(bench.a, kSize, {{at, "x"}});
      CHECK(bench.same());
    }
  }
}

TEST_CASE("holes of terabytes are not read, on either side") {
  Bench bench;
  const std::uint64_t size = 8 * kTiB, middle = 5 * kTiB;
  make_file(bench.a, size, {{middle, "middle"}, {size - 3, "end"}});
  make_file(bench.b, size, {{middle, "middle"}, {size - 3, "end"}});
  CHECK(bench.same());
  make_file(bench.b, size, {{middle, "middle"}, {size - 3, "and"}});
  CHECK_FALSE(bench.same());
  make_file(bench.b, size, {});
  CHECK_FALSE(bench.same());
  CHECK(bench.os.bytes_read < 64 * kMiB);
  CHECK(bench.os.largest <= kMiB);

  bench.os.bytes_read = 0;
  make_file(bench.a, 64 * kMiB, {{0, std::string(64 * kMiB, '\0')}});
  make_file(bench.b, 64 * kMiB, {});
  CHECK(same_contents(Context{.os = bench.os}, File::open_read(bench.os, bench.a),
                      File::open_read(bench.os, bench.b)));
  CHECK(bench.os.bytes_read <= 64 * kMiB);  // of one file only
}

TEST_CASE("a stop ends a comparison before the next read") {
  Bench bench;
  const std::string text(16 * kMiB, 'x');
  put_file(bench.a, text);
  put_file(bench.b, text);
  const auto stopped = [&] {
    try {
      bench.same();
      return false;
    } catch (const Error& error) {
      return error.code() == ErrorCode::terminated;
    }
  };
  bench.os.after_read = [&] { bench.stop.request(SIGTERM); };
  CHECK(stopped());
  CHECK(bench.os.bytes_read == 2 * kMiB);
  CHECK(stopped());
  CHECK(bench.os.bytes_read == 2 * kMiB);
}

TEST_CASE("a file that cannot be read, or is cut while it is read, is an error that names it") {
  Bench bench;
  put_file(bench.a, std::string(3 * kMiB, 'x'));
  put_file(bench.b, std::string(3 * kMiB, 'x'));
  bench.os.knows_holes = false;
  bench.os.after_read = [&] { std::filesystem::resize_file(bench.b, kMiB); };
  CHECK_THROWS_WITH_AS(bench.same(), doctest::Contains("/b"), Error);
}

TEST_CASE("holes of a copied file stay holes, and are not read") {
  Bench bench;
  make_file(bench.a, 8 * kTiB, {{0, "begin"}, {3 * kTiB, std::string(5 * kMiB, 'x')}, {8 * kTiB - 3, "end"}});
  const auto copy = [&] {
    File to = File::create(bench.os, bench.b);
    copy_contents(Context{.os = bench.os}, File::open_read(bench.os, bench.a), to);
  };
  copy();
  CHECK(bench.os.bytes_read < 16 * kMiB);
  CHECK(allocated(bench.b) < 16 * kMiB);
  CHECK(bench.same());
  make_file(bench.a, 9 * kMiB, {{5 * kMiB, "x"}});
  bench.os.knows_holes = false;
  copy();
  CHECK(file_contents(bench.b) == file_contents(bench.a));
}
