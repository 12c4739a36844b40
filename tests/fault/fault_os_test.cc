// The fault-injecting Os itself: a writer that does everything right passes, each careless one is caught.
#include "fault/fault_os.h"

#include <doctest/doctest.h>
#include <errno.h>

#include <string>

#include "base/error.h"
#include "base/file.h"
#include "scratch.h"

using namespace planesmith;

namespace {

const std::string kOld = "what stood there before", kNew = "what stands there now, which is longer";

// Whether the file was ever found to be neither old nor new, over all crash points and losses.
template <typename Write>
bool crash_breaks(const Scratch& dir, Write write) {
  bool broken = false;
  const auto prepare = [&] {
    dir.clear();
    put_file(dir / "file", kOld);
  };
  const auto after = [&](const FaultOs&) {
    const bool there = exists(posix(), dir / "file");
    const std::string found = there ? file_contents(dir / "file") : "";
    broken = broken || (found != kOld && found != kNew);
  };
  CHECK(crash_each(dir.path(), prepare, write, after) > 0);
  return broken;
}

}  // namespace

TEST_CASE("an atomic write survives every failure and every crash") {
  const Scratch dir;
  const auto prepare = [&] {
    dir.clear();
    put_file(dir / "file", kOld);
  };
  const auto write = [&](Os& os) { write_atomically(os, dir / "file", kNew); };
  for (const int error : {EIO, ENOSPC, EDQUOT, EROFS, EINTR}) {
    CAPTURE(error);
    const auto after = [&](const FaultOs& os) {
      CAPTURE(os.hit_at());
      const std::string found = file_contents(dir / "file");
      CHECK((found == kOld || found == kNew));
      if (!os.hit() || error == EINTR) CHECK(found == kNew);
      write(posix());
      CHECK(list_dir(posix(), dir.path()) == std::vector<std::string>{"file"});
    };
    CHECK(fail_each(dir.path(), error, false, prepare, write, after) >= 2);
  }
  CHECK_FALSE(crash_breaks(dir, write));
}

TEST_CASE("short and interrupted transfers change nothing") {
  const Scratch dir;
  FaultOs os(dir.path(), Fault::slow_and_interrupted());
  write_atomically(os, dir / "file", kNew);
  CHECK(read_text(os, dir / "file", 1000) == kNew);
  CHECK(os.operations() > 20);  // 38 bytes, about half at a time, each attempt interrupted once
}

TEST_CASE("overwriting in place is caught") {
  const Scratch dir;
  CHECK(crash_breaks(dir, [&](Os& os) {
    File file = File::create(os, dir / "file");
    file.write(bytes_of(kNew), 0);
    file.sync();
  }));
}

TEST_CASE("a rename before the contents are durable is caught") {
  const Scratch dir;
  CHECK(crash_breaks(dir, [&](Os& os) {
    File::create(os, dir / "file.tmp").write(bytes_of(kNew), 0);
    rename_file(os, dir / "file.tmp", dir / "file");
    sync_dir(os, dir.path());
  }));
}

TEST_CASE("what was not synced is lost, what was stays") {
  const Scratch dir;
  put_file(dir / "first", "1");
  make_dirs(posix(), dir / "directory");
  FaultOs os(dir.path(), {});

  SUBCASE("names") {
    rename_file(os, dir / "first", dir / "second");
    CHECK(os.link((dir / "second").c_str(), (dir / "third").c_str()) == 0);
    make_dirs(os, dir / "new/deeper");  // synced meanwhile, which makes the above durable
    rename_file(os, dir / "third", dir / "directory/fourth");
    CHECK(os.unlink((dir / "second").c_str()) == 0);
    os.lose_power(Loss::all);
    CHECK(list_dir(posix(), dir.path()) == std::vector<std::string>{"directory", "new", "second", "third"});
    CHECK(list_dir(posix(), dir / "directory").empty());
    CHECK(list_dir(posix(), dir / "new") == std::vector<std::string>{"deeper"});
    CHECK(status(posix(), dir / "second").st_ino == status(posix(), dir / "third").st_ino);
    CHECK(file_contents(dir / "third") == "1");
  }
  SUBCASE("a directory that moves takes along what is in it") {
    write_atomically(os, dir / "directory/inside", "x");
    rename_file(os, dir / "directory", dir / "moved");
    sync_dir(os, dir.path());
    os.lose_power(Loss::all);
    CHECK(list_dir(posix(), dir.path()) == std::vector<std::string>{"first", "moved"});
    CHECK(file_contents(dir / "moved/inside") == "x");
  }
  SUBCASE("contents") {
    {
      File file = File::open_write(os, dir / "first");
      file.write(bytes_of("22"), 0);
      file.sync();
      file.write(bytes_of("333"), 0);
    }
    File::create(os, dir / "never synced").write(bytes_of("4"), 0);
    os.lose_power(Loss::contents);
    CHECK(file_contents(dir / "first") == "22");
    CHECK(file_contents(dir / "never synced").empty());
  }
  SUBCASE("a killed process loses nothing") {
    File::create(os, dir / "never synced").write(bytes_of("4"), 0);
    os.lose_power(Loss::none);
    CHECK(file_contents(dir / "never synced") == "4");
  }
}

TEST_CASE("after the crash nothing happens any more") {
  const Scratch dir;
  FaultOs os(dir.path(), Fault::crash_after(2));
  CHECK(os.mkdir((dir / "a").c_str(), 0777) == 0);
  CHECK(os.mkdir((dir / "b").c_str(), 0777) == 0);
  CHECK(os.hit());
  CHECK(os.mkdir((dir / "c").c_str(), 0777) == -1);
  CHECK(errno == EIO);
  CHECK(os.unlink((dir / "a").c_str()) == -1);
  CHECK(list_dir(posix(), dir.path()) == std::vector<std::string>{"a", "b"});
}

TEST_CASE("a full disk stays full") {
  const Scratch dir;
  FaultOs os(dir.path(), Fault::fail(2, ENOSPC, true));
  CHECK(os.mkdir((dir / "a").c_str(), 0777) == 0);
  CHECK(os.mkdir((dir / "b").c_str(), 0777) == -1);
  CHECK(os.mkdir((dir / "b").c_str(), 0777) == -1);
  CHECK(errno == ENOSPC);
  CHECK(os.rmdir((dir / "a").c_str()) == 0);  // needs no space
}
