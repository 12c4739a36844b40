// Directories held open: access through links is refused, even if names are exchanged meanwhile, with and
// without openat2.
#include "base/dir.h"

#include <doctest/doctest.h>
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <thread>

#include "base/error.h"
#include "base/file_status.h"
#include "base/lock_file.h"
#include "fault/fault_os.h"
#include "scratch.h"

using namespace planesmith;

namespace {

// The work once with openat2 and once with each directory of the path opened by itself.
void both_ways(const Scratch& dir, const std::function<void(const Dir&)>& work) {
  SUBCASE("openat2") {
    work(Dir::open(posix(), dir.path()));
  }
  SUBCASE("no openat2") {
    FaultOs os(dir.path(), Fault::without({{"openat2", ENOSYS}}));
    work(Dir::open(os, dir.path()));
    CHECK(os.missed());
  }
}

std::string error_of(const std::function<void()>& work) {
  try {
    work();
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

bool says(const std::string& text, std::string_view part) {
  return text.find(part) != text.npos;
}

mode_t mode_of(const std::string& path) {
  return status(posix(), path).st_mode & 07777;
}

}  // namespace

TEST_CASE("files and directories by names relative to a directory") {
  const Scratch scratch;
  both_ways(scratch, [&](const Dir& dir) {
    const Dir inner = dir.make_dirs("a/b");
    inner.create_new("file", 0640).write(bytes_of("text"), 0);
    CHECK(mode_of(scratch / "a/b/file") == 0640);
    CHECK(dir.open_read("a/b/file").path() == scratch / "a/b/file");
    CHECK(dir.status("a/b/file").st_size == 4);
    CHECK_FALSE(dir.exists("a/c/file"));
    CHECK(says(error_of([&] { dir.create_new("a/b/file"); }), "File exists"));
    dir.rename("a/b/file", dir, "moved");
    dir.link("moved", inner, "second");
    dir.symlink("moved", "a/link");
    CHECK(dir.read_link("a/link") == "moved");
    CHECK(dir.list() == std::vector<std::string>{"a", "moved"});
    CHECK(dir.open_dir("a").list() == std::vector<std::string>{"b", "link"});
    dir.chmod("moved", 0600);
    CHECK(mode_of(scratch / "moved") == 0600);
    dir.write_atomically("moved", "other");
    CHECK(file_contents(scratch / "moved") == "other");
    CHECK(file_contents(scratch / "a/b/second") == "text");
    dir.create_instead("a/link").write(bytes_of("1"), 0);
    CHECK(file_contents(scratch / "a/link") == "1");
    CHECK_FALSE(dir.rmdir("a"));
    CHECK_FALSE(dir.unlink("nothing"));
    dir.remove_tree("a");
    CHECK(dir.unlink("moved"));
    CHECK(dir.list().empty());
    CHECK_FALSE(Dir::find(dir.os(), scratch / "nothing").has_value());
    CHECK_FALSE(dir.find_dir("nothing").has_value());
  });
}

TEST_CASE("no operation follows a link or leaves the directory") {
  const Scratch scratch;
  std::filesystem::create_directories(scratch / "outside/deep");
  std::filesystem::create_directories(scratch / "dir/real");
  put_file(scratch / "outside/victim", "untouched");
  std::filesystem::create_symlink(scratch / "outside", scratch / "dir/link");
  std::filesystem::create_symlink(scratch / "outside/victim", scratch / "dir/file");
  const auto work = [&](Os& os) {
    const Dir dir = Dir::open(os, scratch / "dir");
    const Dir real = dir.open_dir("real");
    for (const std::function<void()>& each :
         std::initializer_list<std::function<void()>>{[&] { dir.open_dir("link"); },
                                                      [&] { dir.find_dir("link"); },
                                                      [&] { dir.make_dir("link"); },
                                                      [&] { dir.make_dirs("link/new"); },
                                                      [&] { dir.make_private_dir("link"); },
                                                      [&] { dir.open_read("file"); },
                                                      [&] { dir.open_write("file"); },
                                                      [&] { dir.open_read("link/victim"); },
                                                      [&] { dir.open_write("link/victim"); },
                                                      [&] { dir.create_new("link/new"); },
                                                      [&] { dir.create_instead("link/victim"); },
                                                      [&] { dir.open_or_create("file", 0600); },
                                                      [&] { dir.unlink("link/victim"); },
                                                      [&] { dir.rmdir("link/deep"); },
                                                      [&] { dir.rename("link/victim", real, "victim"); },
                                                      [&] { real.rename("x", dir, "link/x"); },
                                                      [&] { dir.link("link/victim", real, "victim"); },
                                                      [&] { dir.symlink("x", "link/new"); },
                                                      [&] { dir.chmod("file", 0777); },
                                                      [&] { dir.chmod("link/victim", 0777); },
                                                      [&] { dir.write_atomically("link/victim", "x"); },
                                                      [&] { dir.look("link/victim"); }})
      CHECK(says(error_of(each), "symbolic link"));
    for (const std::string name : {"..", "../outside/victim", "real/../../outside/victim", "/etc/passwd", "",
                                   "real//x", "./real", "real/"})
      CHECK(says(error_of([&] { dir.open_read(name); }), "is not a plain name below its directory"));
    dir.remove_tree("nothing");
    CHECK(S_ISLNK(dir.status("link").st_mode));
    CHECK(file_contents(scratch / "outside/victim") == "untouched");
    CHECK(std::filesystem::exists(scratch / "outside/deep"));
  };
  SUBCASE("openat2") {
    work(posix());
  }
  SUBCASE("no openat2") {
    FaultOs os(scratch.path(), Fault::without({{"openat2", EPERM}}));
    work(os);
  }
  SUBCASE("links are replaced and removed, not what they lead to") {
    const Dir dir = Dir::open(posix(), scratch / "dir");
    dir.write_atomically("file", "mine");
    CHECK(S_ISREG(dir.status("file").st_mode));
    std::filesystem::create_symlink(scratch / "outside/victim", scratch / "dir/file.tmp");
    dir.write_atomically("file", "mine again");
    CHECK(file_contents(scratch / "dir/file") == "mine again");
    dir.remove_tree("link");
    CHECK(file_contents(scratch / "outside/victim") == "untouched");
    Dir::open(posix(), scratch.path()).remove_tree("dir");
    CHECK(file_contents(scratch / "outside/victim") == "untouched");
  }
}

namespace {

// An old kernel. Not a FaultOs, whose model cannot follow what others rename.
class NoOpenat2 : public Os {
  int openat2(int, const char*, int, mode_t, std::uint64_t) override {
    errno = ENOSYS;
    return -1;
  }
};

}  // namespace

TEST_CASE("a directory exchanged for a link while files are written into it") {
  const Scratch scratch;
  std::filesystem::create_directories(scratch / "dir/sub");
  std::filesystem::create_directory(scratch / "outside");
  std::filesystem::create_symlink(scratch / "outside", scratch / "dir/link");
  std::atomic<bool> stop{false};
  std::atomic<std::uint64_t> exchanged{0};
  std::thread racer([&] {
    while (!stop) {
      if (::renameat2(AT_FDCWD, (scratch / "dir/sub").c_str(), AT_FDCWD, (scratch / "dir/link").c_str(), 2) ==
          0)
        ++exchanged;  // 2: RENAME_EXCHANGE
      else
        std::this_thread::yield();
    }
  });
  const char* seconds = std::getenv("RACE_SECONDS");
  const auto end = std::chrono::steady_clock::now() +
                   std::chrono::milliseconds(seconds == nullptr ? 300 : 1000 * std::atoi(seconds));
  const auto race = [&](Os& os) {
    const Dir dir = Dir::open(os, scratch / "dir");
    std::uint64_t written = 0;
    for (int i = 0; std::chrono::steady_clock::now() < end; ++i) {
      const std::string name = "sub/" + std::to_string(i % 50);
      try {
        dir.create_instead(name).write(bytes_of("x"), 0);
        dir.chmod(name, 0600);
        dir.rename(name, dir, name + ".moved");
        dir.unlink(name + ".moved");
        ++written;
      } catch (const Error&) {
      }
    }
    return written;
  };
  SUBCASE("openat2") {
    CHECK(race(posix()) > 0);
  }
  SUBCASE("no openat2") {
    NoOpenat2 os;
    CHECK(race(os) > 0);
  }
  stop = true;
  racer.join();
  if (exchanged == 0) MESSAGE("SKIPPED: this file system cannot exchange names");
  CHECK(std::filesystem::is_empty(scratch / "outside"));
}

TEST_CASE("a private directory is ours alone, or an error that names owner and mode") {
  const Scratch scratch;
  const Dir dir = Dir::open(posix(), scratch.path());
  CHECK_FALSE(dir.find_private_dir("state").has_value());
  dir.make_private_dir("state");
  CHECK(mode_of(scratch / "state") == 0700);
  dir.make_private_dir("state");
  for (const mode_t mode : {0777, 01777, 0770, 0702}) {
    ::chmod((scratch / "state").c_str(), mode);
    const std::string error = error_of([&] { dir.make_private_dir("state"); });
    CHECK(says(error, scratch / "state"));
    CHECK(says(error, "mode 0") != says(error, "mode 1"));
    CHECK(mode_of(scratch / "state") == mode);  // not made to fit
  }
  ::chmod((scratch / "state").c_str(), 0770);
  dir.make_private_dir("state", true);
  if (::geteuid() == 0) {
    CHECK(::chown((scratch / "state").c_str(), 65534, 65534) == 0);
    ::chmod((scratch / "state").c_str(), 0700);
    CHECK(says(error_of([&] { dir.make_private_dir("state"); }), "65534"));
    CHECK(says(error_of([&] { dir.find_private_dir("state"); }), "65534"));
  } else {
    MESSAGE("SKIPPED: directories of other users (not root)");
  }
}

TEST_CASE("writing through a directory survives every failure and every crash") {
  const Scratch scratch;
  const auto prepare = [&] {
    scratch.clear();
    put_file(scratch / "file", "old");
    put_file(scratch / "going", "");
  };
  const auto write = [&](Os& os) {
    const Dir dir = Dir::open(os, scratch.path());
    const Dir inner = dir.make_dirs("a/b");
    inner.write_atomically("file", "new");
    dir.write_atomically("file", "new");
    dir.unlink("going");
    dir.sync();
  };
  const auto check = [&](const FaultOs& os) {
    CAPTURE(os.hit_at());
    const std::string found = file_contents(scratch / "file");
    CHECK((found == "old" || found == "new"));
    if (exists(posix(), scratch / "a/b/file")) CHECK(file_contents(scratch / "a/b/file") == "new");
    if (found == "new") CHECK(exists(posix(), scratch / "a/b/file"));
    if (!exists(posix(), scratch / "going")) CHECK(found == "new");
    write(posix());
    CHECK(list_dir(posix(), scratch.path()) == std::vector<std::string>{"a", "file"});
    CHECK(list_dir(posix(), scratch / "a/b") == std::vector<std::string>{"file"});
  };
  std::uint64_t faults = 0;
  for (const int error : {EIO, ENOSPC, EINTR})
    faults += fail_each(scratch.path(), error, false, prepare, write, check);
  CHECK(faults > 10);
  CHECK(crash_each(scratch.path(), prepare, write, check) > 10);
}

TEST_CASE("storage that cannot sync directories or keep modes: noted once") {
  const Scratch scratch;
  for (const int error : {EINVAL, ENOTSUP, ENOTTY, EBADF, EROFS}) {
    CAPTURE(error);
    FaultOs os(scratch.path(), Fault::without({{"sync directory", error}, {"chmod", EPERM}}));
    std::vector<std::string> notes;
    os.pass_notes_to([&](const std::string& line) { notes.push_back(line); });
    const Dir dir = Dir::make(os, scratch / "new/deep");
    dir.write_atomically("file", "1");
    dir.write_atomically("file", "2");
    dir.chmod("file", 0600);
    dir.chmod("file", 0644);
    CHECK(file_contents(scratch / "new/deep/file") == "2");
    REQUIRE(notes.size() == 2);
    CHECK(says(notes[0], "cannot sync directories"));
    CHECK(says(notes[1], "the mode cannot be set"));
    scratch.clear();
  }
  FaultOs broken(scratch.path(), Fault::without({{"sync directory", EIO}}));
  CHECK(says(error_of([&] { Dir::open(broken, scratch.path()).sync(); }), "cannot sync the directory"));
}

TEST_CASE("a mode that was not synced with fsync is lost with the power") {
  const Scratch scratch;
  put_file(scratch / "file", "1");
  ::chmod((scratch / "file").c_str(), 0600);
  FaultOs os(scratch.path(), {});
  const Dir dir = Dir::open(os, scratch.path());
  {
    File file = dir.open_write("file");
    file.write(bytes_of("2"), 0);
    file.chmod(0640);
    SUBCASE("fdatasync") {
      file.sync();
      os.lose_power(Loss::all);
      CHECK(mode_of(scratch / "file") == 0600);
    }
    SUBCASE("fsync") {
      file.sync_all();
      os.lose_power(Loss::all);
      CHECK(mode_of(scratch / "file") == 0640);
    }
  }
  CHECK(file_contents(scratch / "file") == "2");
}

TEST_CASE("locks keep runs apart, with and without flock") {
  const Scratch scratch;
  const auto work = [&](Os& os) {
    const Dir dir = Dir::open(os, scratch.path());
    {
      std::vector<LockFile> first, second;
      CHECK(LockFile::try_take(dir, "x.lock", first));
      CHECK_FALSE(LockFile::try_take(dir, "x.lock", second));
      CHECK(says(LockFile::holder(dir, "x.lock"), "process " + std::to_string(::getpid())));
      const std::vector<std::string> names = dir.list();
      REQUIRE(names.size() == 1);
      CHECK(LockFile::lock_of(names[0]) == "x.lock");
      CHECK(mode_of(scratch / names[0]) == 0600);
    }
    CHECK(dir.list().empty());
  };
  SUBCASE("flock") {
    work(posix());
  }
  SUBCASE("no flock") {
    for (const int error : {ENOSYS, ENOLCK, EOPNOTSUPP}) {
      FaultOs os(scratch.path(), Fault::without({{"flock", error}}));
      work(os);
      // Of a process that is gone, on this host and on another.
      std::vector<LockFile> held;
      char host[256] = "";
      ::gethostname(host, sizeof host - 1);
      const std::string space = std::filesystem::read_symlink("/proc/self/ns/pid").string();
      put_file(scratch / "x.lock.held", "4194300 0 " + std::string(host) + " " + space + "\n");
      CHECK(LockFile::try_take(os, scratch / "x.lock", held));
      held.clear();
      put_file(scratch / "x.lock.held", "4194300 0 elsewhere " + space + "\n");
      CHECK_FALSE(LockFile::try_take(os, scratch / "x.lock", held));
      const std::string holder = LockFile::holder(Dir::open(os, scratch.path()), "x.lock");
      CHECK(says(holder, "on host elsewhere"));
      CHECK(says(holder, "remove " + scratch / "x.lock.held"));
      scratch.clear();
    }
  }
  SUBCASE("flock that the engine needs") {
    FaultOs os(scratch.path(), Fault::without({{"flock", ENOSYS}}));
    put_file(scratch / "p.lock", "");
    const File file = Dir::open(os, scratch.path()).open_write("p.lock");
    CHECK(says(error_of([&] { try_flock(os, file); }), "mount it with flock"));
  }
  SUBCASE("a planted lock") {
    const Dir dir = Dir::open(posix(), scratch.path());
    std::vector<LockFile> held;
    std::filesystem::create_symlink(scratch / "elsewhere", scratch / "x.lock");
    CHECK(says(error_of([&] { LockFile::try_take(dir, "x.lock", held); }), "symbolic link"));
    CHECK_FALSE(exists(posix(), scratch / "elsewhere"));
    dir.unlink("x.lock");
    put_file(scratch / "x.lock", "");
    ::chmod((scratch / "x.lock").c_str(), 0666);
    CHECK(says(error_of([&] { LockFile::try_take(dir, "x.lock", held); }), "mode 0666"));
  }
}

namespace {

// Shows another inode at every look by name.
class ShiftingOs : public Os {
 public:
  int fstatat(int dir, const char* path, struct stat* out, int flags) override {
    const int result = Os::fstatat(dir, path, out, flags);
    out->st_ino += static_cast<ino_t>(++looks_);
    return result;
  }

 private:
  int looks_ = 0;
};

}  // namespace

TEST_CASE("inodes that differ at every look end in an error, and a stop ends the wait for a lock") {
  const Scratch scratch;
  ShiftingOs os;
  std::vector<LockFile> held;
  CHECK(says(error_of([&] { LockFile::try_take(os, scratch / "x.lock", held); }),
             "has a different inode each time"));
  scratch.clear();
  REQUIRE(LockFile::try_take(posix(), scratch / "x.lock", held));
  Stop stop;
  stop.request(2);
  const Context context{.stop = &stop};
  CHECK_THROWS_AS(wait_for_lock(context, scratch / "x.lock"), Error);
}
