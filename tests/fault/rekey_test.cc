// Rekey under every failing operation and every crash, and prune under every crash: for rekey the old or the
// new identity is whole at any moment, a second run finishes, and nothing is left over.
#include "maintain/rekey.h"

#include <errno.h>

#include <algorithm>
#include <filesystem>
#include <functional>
#include <vector>

#include "base/error.h"
#include "base/lock_file.h"
#include "fault/fault_os.h"
#include "maintain/prune.h"
#include "rekey_store.h"

using namespace rekey_store;

namespace {

class Bench {
  const Scratch dir_;  // declared before members that use its path

 public:
  RekeyRequest request{"old", "new", dir_ / "cache", dir_ / "store", false};

  void prepare() const {
    dir_.clear();
    make(dir_.path(), "old");
  }
  void rekey_with(Os& os) const {
    const Context context{.os = os};
    rekey(context, request);
  }

  // A reader that follows the engine's rules, at the moment that is on disk now.
  void check_readable() const {
    const auto now = tree(dir_.path());
    bool whole = false;
    for (const std::string ckpt_id : {"old", "new"}) {
      const BootVerdict verdict = ask(dir_.path(), ckpt_id);
      whole |= verdict.hit();
      const auto& right = ckpt_id == "old" ? old_ : new_;
      const auto is_right = [&](const std::string& path) {
        const std::string name = path.substr(dir_.path().size() + 1);
        CAPTURE(name);
        CHECK(now.at(name) == right.at(name));
      };
      for (const CacheVerdict& cache : verdict.caches)
        for (const LayerVerdict& layer : cache.layers)
          for (const PartVerdict& part : layer.parts)
            if (layer.hit()) is_right(part.path);
      for (const PackVerdict& pack : verdict.packs) {
        if (pack.hit()) is_right(pack.path);
        // The engine would truncate this file, which the other identity's pack may still be.
        if (pack.emptied && status(posix(), pack.path).st_nlink > 1)
          FAIL_CHECK("a shared pack would be emptied");
      }
    }
    CHECK(whole);
  }

  void check_done() const { check_same(tree(dir_.path())); }

  // As above, but an empty directory may be left, since it has no identity to recognize it by.
  void check_files() const {
    auto now = tree(dir_.path());
    std::erase_if(
        now, [&](const auto& entry) { return entry.second == "directory" && !new_.contains(entry.first); });
    check_same(now);
  }

  const Scratch& dir() const { return dir_; }

 private:
  void check_same(const std::map<std::string, std::string>& now) const {
    for (const auto& file : new_) {
      CAPTURE(file.first);
      CHECK((now.contains(file.first) && now.at(file.first) == file.second));
    }
    for (const auto& file : now) {
      CAPTURE(file.first);
      CHECK(new_.contains(file.first));
    }
  }

  const std::map<std::string, std::string> old_ = expected("old"), new_ = expected("new");
};

}  // namespace

TEST_CASE("rekey gives what a build under the new identity would have given") {
  const Bench bench;
  bench.prepare();
  std::map<std::string, ino_t> inodes;
  for (const auto& [name, text] : tree(bench.dir().path()))
    if (name.ends_with(".bin") || name.ends_with(".pack"))
      inodes[text] = status(posix(), bench.dir() / name).st_ino;
  bench.rekey_with(posix());
  bench.check_done();
  for (const auto& [name, text] : tree(bench.dir().path()))
    if (name.ends_with(".bin") || name.ends_with(".pack")) {
      CHECK(inodes.at(text) == status(posix(), bench.dir() / name).st_ino);  // not copied
      CHECK(status(posix(), bench.dir() / name).st_nlink == 1);
    }
  bench.rekey_with(posix());  // nothing left to do
  bench.check_done();
}

TEST_CASE("rekey survives a crash after every operation") {
  const Bench bench;
  const std::uint64_t crashes = crash_each(
      bench.dir().path(), [&] { bench.prepare(); }, [&](Os& os) { bench.rekey_with(os); },
      [&](const FaultOs& os) {
        CAPTURE(os.hit_at());
        bench.check_readable();
        bench.rekey_with(posix());
        bench.check_done();
      });
  MESSAGE("crashes: ", crashes);
  CHECK(crashes > 4 * 50);
}

TEST_CASE("locks that a killed run left go, unless a process holds them") {
  const Bench bench;
  bench.prepare();
  bench.rekey_with(posix());
  const std::string stray = bench.dir() / "store/.base.v2.0123456789abcdef0123.rank0of2";
  const std::string held = bench.dir() / "store/.base.v2.0123456789abcdef0123.rank1of2.lock";
  const std::string other = bench.dir() / "store/.notes.lock";
  const auto rekey_again = [&] { bench.rekey_with(posix()); };
  const auto prune_rest = [&] {
    prune(Context{}, {bench.request.planescache, bench.request.store, {"new"}, true});
  };
  for (const std::function<void()>& run :
       {std::function<void()>(rekey_again), std::function<void()>(prune_rest)}) {
    put_file(stray + ".lock", "");
    put_file(stray + ".layer1.lock", "");
    put_file(other, "");
    std::vector<LockFile> locks;
    REQUIRE(LockFile::try_take(posix(), held, locks));
    run();
    CHECK(!exists(posix(), stray + ".lock"));
    CHECK(!exists(posix(), stray + ".layer1.lock"));
    CHECK(exists(posix(), held));
    CHECK(exists(posix(), other));
  }
  remove_file(posix(), other);
  bench.check_done();
}

TEST_CASE("prune survives a crash after every operation") {
  const Bench bench;
  const auto prune_old = [&](Os& os) {
    const Context context{.os = os};
    prune(context, {bench.request.planescache, bench.request.store, {"new"}, true});
  };
  const std::uint64_t crashes = crash_each(
      bench.dir().path(),
      [&] {
        bench.prepare();
        make(bench.dir().path(), "new");
      },
      prune_old,
      [&](const FaultOs& os) {
        CAPTURE(os.hit_at());
        prune_old(posix());
        bench.check_files();
      });
  CHECK(crashes > 4 * 30);
}

TEST_CASE("rekey survives a second crash while it finishes what the first one left") {
  const Bench bench;
  const std::uint64_t crashes = crash_each(
      bench.dir().path(),
      [&] {
        bench.prepare();
        FaultOs os(bench.dir().path(), Fault::crash_after(60));
        try {
          bench.rekey_with(os);
        } catch (const Error&) {
        }
        REQUIRE(os.hit());
      },
      [&](Os& os) { bench.rekey_with(os); },
      [&](const FaultOs& os) {
        CAPTURE(os.hit_at());
        bench.check_readable();
        bench.rekey_with(posix());
        bench.check_done();
      });
  CHECK(crashes > 4 * 30);
}

TEST_CASE("rekey survives the failure of every operation") {
  const Bench bench;
  std::uint64_t failures = 0;
  const auto fail_with = [&](int error, bool lasting) {
    CAPTURE(error);
    failures += fail_each(
        bench.dir().path(), error, lasting, [&] { bench.prepare(); }, [&](Os& os) { bench.rekey_with(os); },
        [&](const FaultOs& os) {
          CAPTURE(os.hit_at());
          bench.check_readable();
          if (error == EINTR) bench.check_done();
          bench.rekey_with(posix());
          bench.check_done();
        });
  };
  SUBCASE("EIO") {
    fail_with(EIO, false);
  }
  SUBCASE("ENOSPC") {
    fail_with(ENOSPC, true);
  }
  SUBCASE("EDQUOT") {
    fail_with(EDQUOT, false);
  }
  SUBCASE("EROFS") {
    fail_with(EROFS, true);
  }
  SUBCASE("EINTR") {
    fail_with(EINTR, false);
  }
  MESSAGE("failures: ", failures);
  CHECK(failures > 20);
}

TEST_CASE("rekey copes with short and interrupted transfers") {
  const Bench bench;
  bench.prepare();
  FaultOs os(bench.dir().path(), Fault::slow_and_interrupted());
  bench.rekey_with(os);
  bench.check_done();
}

namespace {

class NoLinks : public Os {
  int linkat(int, const char*, int, const char*) override {
    errno = EPERM;
    return -1;
  }
};

}  // namespace

TEST_CASE("without hard links rekey copies on request, and a second run ends from every state") {
  Bench bench;
  bench.prepare();
  FaultOs os(bench.dir().path(), Fault::without({{"link", EPERM}}));
  try {
    bench.rekey_with(os);
    FAIL_CHECK("no hard link, no copy, and no error");
  } catch (const Error& error) {
    CHECK(std::string(error.what()).find("--copy") != std::string::npos);
  }
  bench.check_readable();
  bench.request.copy = true;
  for (const int error : {EPERM, EXDEV, EMLINK, ENOSYS}) {
    bench.prepare();
    FaultOs without(bench.dir().path(), Fault::without({{"link", error}}));
    bench.rekey_with(without);
    CHECK(without.missed());
    bench.check_done();
  }
  const std::uint64_t crashes = crash_each(
      bench.dir().path(), [&] { bench.prepare(); }, [&](Os& crashing) { bench.rekey_with(crashing); },
      [&](const FaultOs& crashed) {
        CAPTURE(crashed.hit_at());
        bench.check_readable();
        NoLinks again;
        bench.rekey_with(again);
        bench.check_done();
      },
      {{"link", EPERM}}, 7);
  CHECK(crashes > 4 * 20);
}

TEST_CASE("rekey completes beside a copy with the same content under the new identity") {
  const Bench bench;
  bench.prepare();
  make(bench.dir().path(), "new");  // both identities whole, no file shared: an earlier run on overlayfs
  bench.rekey_with(posix());
  bench.check_done();
}

TEST_CASE("rekey and prune do not go through links that others put there") {
  const Bench bench;
  bench.prepare();
  const std::string victim = bench.dir() / "victim";
  std::filesystem::create_directories(victim + "/deep");
  put_file(victim + "/deep/file", "untouched");
  for (const std::string ckpt_id : {"old", "new"}) {
    const format::CacheMeta meta{ckpt_id, kWorld, 0, format::ZeroMode::automatic, false};
    const std::string half = bench.dir() / ("cache/" + format::cache_directory(meta) + ".tmp");
    std::filesystem::create_directories(parent_of(half));
    std::filesystem::create_symlink(victim, half);
  }
  bench.rekey_with(posix());
  CHECK(file_contents(victim + "/deep/file") == "untouched");
  const format::CacheMeta meta{"new", kWorld, 1, format::ZeroMode::automatic, false};
  const std::string rank = bench.dir() / ("cache/" + format::cache_directory(meta));
  std::filesystem::rename(rank, bench.dir() / "moved");
  std::filesystem::create_symlink(bench.dir() / "moved", rank);
  make(bench.dir().path(), "kept");
  prune(Context{}, {bench.request.planescache, "", {"kept"}, true});  // the link goes, and nothing else
  CHECK(!std::filesystem::exists(std::filesystem::symlink_status(rank)));
  CHECK(file_contents(bench.dir() / "moved/meta.json").find("new") != std::string::npos);
}
