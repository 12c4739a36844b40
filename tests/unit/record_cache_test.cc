// Records are parsed once, and again when their file is another.
#include "sink/record_cache.h"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/stat.h>

#include "base/error.h"
#include "scratch.h"

using namespace planesmith;

namespace {

// A record of this text, as if its stamps were the file's content.
struct Reader {
  RecordCache cache;
  int parsed = 0;

  std::string read(const Dir& dir, const std::string& name, std::uint64_t most = 100) {
    return cache
        .read(dir, name, most,
              [&](const std::string& text) {
                ++parsed;
                if (text == "damaged") throw Error("is damaged");
                return Record{{}, Json(text)};
              })
        ->stamps.get<std::string>();
  }
};

}  // namespace

TEST_CASE("a record is parsed once, and again where its file changed") {
  const Scratch scratch;
  const Dir dir = Dir::open(posix(), scratch.path());
  dir.write_atomically("a", "first");
  dir.write_atomically("b", "other");
  Reader reader;
  for (int i = 0; i < 3; ++i) {
    CHECK(reader.read(dir, "a") == "first");
    CHECK(reader.read(dir, "b") == "other");
  }
  CHECK(reader.parsed == 2);

  SUBCASE("replaced by a file of the same size") {
    dir.write_atomically("a", "again");
    CHECK(reader.read(dir, "a") == "again");
    CHECK(reader.parsed == 3);
  }
  SUBCASE("written in place, with its times put back") {
    const struct stat before = dir.status("a");
    const timespec times[2] = {before.st_atim, before.st_mtim};
    dir.open_write("a").write(bytes_of("again"), 0);
    do {
      REQUIRE(utimensat(dir.fd(), "a", times, 0) == 0);
    } while (dir.status("a").st_ctim.tv_nsec == before.st_ctim.tv_nsec);  // the clock of ctime is coarse
    CHECK(reader.read(dir, "a") == "again");
  }
  SUBCASE("dropped") {
    reader.cache.drop(dir.path_of("a"));
    CHECK(reader.read(dir, "a") == "first");
    CHECK(reader.parsed == 3);
    CHECK(reader.read(dir, "b") == "other");
    CHECK(reader.parsed == 3);
  }
  SUBCASE("removed") {
    dir.unlink("a");
    CHECK_THROWS_AS(reader.read(dir, "a"), Error);
  }
  SUBCASE("the same entry name of another directory is another record") {
    const Dir inner = dir.make_dir("inner");
    inner.write_atomically("a", "inner");
    CHECK(reader.read(inner, "a") == "inner");
    CHECK(reader.read(dir, "a") == "first");
    CHECK(reader.parsed == 3);
  }
}

TEST_CASE("a record that cannot be used is parsed once, too, and again where its file changed") {
  const Scratch scratch;
  const Dir dir = Dir::open(posix(), scratch.path());
  dir.write_atomically("a", "damaged");
  Reader reader;
  for (int i = 0; i < 3; ++i) CHECK_THROWS_WITH_AS(reader.read(dir, "a"), "is damaged", Error);
  CHECK(reader.parsed == 1);
  dir.write_atomically("a", std::string(101, 'x'));
  CHECK_THROWS_WITH_AS(reader.read(dir, "a"), doctest::Contains("at most 100"), Error);
  CHECK(reader.parsed == 1);
  CHECK(reader.read(dir, "a", 101).size() == 101);
  CHECK(reader.parsed == 2);
}
