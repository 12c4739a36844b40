// What rekey and prune refuse, and that they then change nothing.
#include <doctest/doctest.h>
#include <errno.h>

#include <functional>

#include "base/error.h"
#include "base/lock_file.h"
#include "maintain/prune.h"
#include "maintain/rekey.h"
#include "rekey_store.h"
#include "sink/records.h"

using namespace rekey_store;
namespace fs = std::filesystem;

namespace {

struct Bench {
  Bench() { make(dir.path(), "old"); }
  RekeyRequest request(const std::string& from, const std::string& to) const {
    return {from, to, dir / "cache", dir / "store", false};
  }
  // The directory of a rank, the stem of a pack.
  std::string directory(const std::string& ckpt_id, std::uint64_t rank) const {
    return dir / "cache/" +
           format::cache_directory({ckpt_id, kWorld, rank, format::ZeroMode::automatic, false});
  }
  std::string stem(const std::string& ckpt_id, format::Tier tier, std::uint64_t rank) const {
    const format::PackSpec spec = format::pack_spec(tier, kGeometry, format::rank_shape(kGeometry, kWorld),
                                                    ckpt_id, format::ZeroMode::automatic);
    return dir / "store/" + format::pack_stem(spec, rank, kWorld);
  }
  const Scratch dir;
};

void refuses(const Bench& bench, const RekeyRequest& request, const std::string& why,
             ErrorCode code = ErrorCode::failed, Os& os = posix()) {
  const auto before = tree(bench.dir.path());
  const Context context{.os = os};
  try {
    rekey(context, request);
    FAIL_CHECK("accepted");
  } catch (const Error& error) {
    const std::string text = error.what();
    CAPTURE(text);
    CHECK(text.find(why) != text.npos);
    CHECK(error.code() == code);
  }
  CHECK(tree(bench.dir.path()) == before);
}

// A file system without hard links.
class NoLinks : public Os {
  int linkat(int, const char*, int, const char*) override {
    errno = EPERM;
    return -1;
  }
};

}  // namespace

TEST_CASE("rekey refuses what it should not touch") {
  const Bench bench;
  const RekeyRequest request = bench.request("old", "new");
  SUBCASE("nothing has that identity") {
    refuses(bench, bench.request("other", "new"),
            "nothing here has the identity 'other'; found: 'old' (world 2, zero mode auto)");
  }
  SUBCASE("the same, empty or impossible identities") {
    refuses(bench, bench.request("old", "old"), "are the same", ErrorCode::usage);
    refuses(bench, bench.request("old", ""), "is empty", ErrorCode::usage);
    refuses(bench, bench.request("old", "\xff"), "not valid UTF-8", ErrorCode::usage);
    refuses(bench, {"old", "new", "", "", false}, "give --planescache", ErrorCode::usage);
  }
  SUBCASE("meta.json does not say so") {
    put_file(bench.directory("old", 1) + "/meta.json",
             format::meta_json({"x", 2, 1, format::ZeroMode::automatic, false}));
    put_file(bench.directory("old", 0) + "/meta.json", "{}");
    refuses(bench, {"old", "new", bench.dir / "cache", "", false},
            "meta.json: is not a planes cache's meta.json; its identity is unknown");
  }
  SUBCASE("a build is not finished") {
    fs::create_directory(bench.directory("old", 0) + "/.planesmith");
    refuses(bench, request, "a build that has not finished");
  }
  SUBCASE("a pack's build is not finished") {
    const std::string stem = bench.stem("old", format::Tier::base, 1);
    fs::create_directory(parent_of(stem) + "/." + name_of(stem));
    refuses(bench, request, "has a build that has not finished");
  }
  SUBCASE("a pack of the wrong size") {
    fs::resize_file(bench.stem("old", format::Tier::delta, 0) + ".pack", 4096);
    refuses(bench, request, "has 4096 bytes, expected");
  }
  SUBCASE("a pack is missing") {
    fs::remove(bench.stem("old", format::Tier::delta, 0) + ".pack");
    refuses(bench, request, ".pack: is missing");
  }
  SUBCASE("a manifest of something else") {
    put_file(bench.directory("old", 0) + "/manifest.json",
             file_contents(bench.directory("old", 1) + "/manifest.json"));
    refuses(bench, request, "is of another cache or pack");
  }
  SUBCASE("a directory inside") {
    fs::create_directory(bench.directory("old", 0) + "/more");
    refuses(bench, request, "is a directory, which a planes cache does not have");
  }
  SUBCASE("another cache has the new identity") {
    make(bench.dir.path(), "new");
    for (const std::string& path :
         {bench.directory("new", 0) + "/layer1.sc2.bin", bench.stem("new", format::Tier::base, 0) + ".pack"})
      put_file(path, std::string(fs::file_size(path), 'x'));
    refuses(bench, request, "holds another cache of the new identity");
    refuses(bench, {"old", "new", "", bench.dir / "store", false}, "is another pack of the new identity");
  }
  SUBCASE("another process writes a pack") {
    File lock = File::open_write(posix(), bench.stem("old", format::Tier::base, 0) + ".lock");
    REQUIRE(try_flock(posix(), lock));
    refuses(bench, request, "is locked");
  }
  SUBCASE("another process builds a layer of the cache") {
    std::vector<LockFile> held;
    REQUIRE(LockFile::try_take(posix(), bench.directory("old", 1) + "/.planesmith.layer2.lock", held));
    refuses(bench, {"old", "new", bench.dir / "cache", "", false},
            "belongs to a build that has not finished");
  }
  SUBCASE("another process holds the lock on the cache as a whole") {
    std::vector<LockFile> held;
    REQUIRE(LockFile::try_take(posix(), bench.directory("old", 1) + "/.planesmith.lock", held));
    refuses(bench, request, ".planesmith.lock: is locked: a build is running there");
  }
  SUBCASE("another process holds the lock on a pack as a whole") {
    const std::string stem = bench.stem("old", format::Tier::base, 1);
    std::vector<LockFile> held;
    REQUIRE(LockFile::try_take(posix(), parent_of(stem) + "/." + name_of(stem) + ".lock", held));
    refuses(bench, request, "is locked: a build is running there");
  }
  SUBCASE("no hard links") {
    NoLinks os;
    refuses(bench, request, "the file system refuses hard links here", ErrorCode::failed, os);
  }
}

TEST_CASE("a build that starts while rekey works does not get a layer") {
  // At every link that rekey makes, builders of each old rank and pack try.
  class Watched : public Os {
   public:
    explicit Watched(const Bench& bench) : bench_(bench) {}
    int tried = 0;

   private:
    int linkat(int from_dir, const char* from, int to_dir, const char* to) override {
      for (std::uint64_t rank = 0; rank < kWorld; ++rank) {
        CHECK_FALSE(gets_layer(bench_.directory("old", rank), ".planesmith"));
        for (const format::Tier tier : kTiers) {
          const std::string stem = bench_.stem("old", tier, rank);
          CHECK_FALSE(gets_layer(parent_of(stem), "." + name_of(stem)));
        }
      }
      return Os::linkat(from_dir, from, to_dir, to);
    }
    // A builder would wait, so it is told to stop.
    bool gets_layer(const std::string& directory, const std::string& prefix) {
      ++tried;
      Stop stop;
      stop.request(2);
      const Context context{.stop = &stop};
      std::vector<LockFile> held;
      try {
        const OutputDir dir(posix(), directory, ".");
        return Records(context, dir, prefix, prefix + ".manifest", "").try_lock(1, held);
      } catch (const Error& error) {
        CHECK(error.code() == ErrorCode::interrupted);
        return false;
      }
    }
    const Bench& bench_;
  };
  const Bench bench;
  Watched os(bench);
  rekey(Context{.os = os}, bench.request("old", "new"));
  CHECK(os.tried > 50);
  CHECK(tree(bench.dir.path()) == expected("new"));
}

TEST_CASE("rekey only says what it would do in a dry run") {
  const Bench bench;
  RekeyRequest request = bench.request("old", "new");
  request.dry_run = true;
  const auto before = tree(bench.dir.path());
  const RekeyReport report = rekey(Context{}, request);
  CHECK(report.moved.size() == 6);
  CHECK(report.moved.front().to.find("/v2/") != std::string::npos);
  CHECK(tree(bench.dir.path()) == before);
}

TEST_CASE("rekey leaves other identities alone") {
  const Bench bench;
  make(bench.dir.path(), "other");
  rekey(Context{}, bench.request("old", "new"));
  for (const auto& [name, text] : expected("other")) {
    const auto& this_name = name;  // clang 14 cannot capture structured bindings
    CAPTURE(this_name);
    CHECK(tree(bench.dir.path()).at(name) == text);
  }
  CHECK(ask(bench.dir.path(), "new").hit());
}

TEST_CASE("prune removes all but what is to be kept, with force") {
  const Bench bench;
  make(bench.dir.path(), "other");
  fs::create_directories(bench.dir / "cache/v2/00000000000000000000/tp1-rank0");  // of no identity
  PruneRequest request{bench.dir / "cache", bench.dir / "store", {"other"}, false};
  const auto before = tree(bench.dir.path());
  const PruneReport plan = prune(Context{}, request);
  CHECK(plan.removed.size() == 6);
  CHECK(plan.kept.size() == 6);
  CHECK(tree(bench.dir.path()) == before);

  request.keep = {"otter"};
  request.force = true;
  try {
    prune(Context{}, request);
    FAIL_CHECK("accepted");
  } catch (const Error& error) {
    CHECK(error.code() == ErrorCode::usage);
    CHECK(error.reason() ==
          "'otter' is to be kept, but is not there; found: 'old', 'other'; nothing was removed");
  }
  CHECK(tree(bench.dir.path()) == before);

  request.keep = {"other"};
  prune(Context{}, request);
  auto left = expected("other");
  left["cache/v2/00000000000000000000"] = left["cache/v2/00000000000000000000/tp1-rank0"] = "directory";
  CHECK(tree(bench.dir.path()) == left);
}

TEST_CASE("prune stays away from what is being written") {
  const Bench bench;
  make(bench.dir.path(), "other");
  const PruneRequest request{bench.dir / "cache", bench.dir / "store", {"other"}, true};
  const auto refused = [&] {
    try {
      prune(Context{}, request);
      return false;
    } catch (const Error& error) {
      return std::string(error.what()).find("is locked") != std::string::npos;
    }
  };
  SUBCASE("a builder's layer") {
    std::vector<LockFile> held;
    REQUIRE(LockFile::try_take(posix(), bench.directory("old", 1) + "/.planesmith.layer2.lock", held));
    CHECK(refused());
  }
  SUBCASE("a pack") {
    File lock = File::open_write(posix(), bench.stem("old", format::Tier::base, 0) + ".lock");
    REQUIRE(try_flock(posix(), lock));
    CHECK(refused());
  }
  CHECK(ask(bench.dir.path(), "old").hit());
}
