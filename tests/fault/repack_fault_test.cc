// repack-experts build when operations fail and when the process or the machine stops at any moment: no wrong
// file has a final name, the source is unchanged, and the next run finishes the work.
#include <doctest/doctest.h>

#include <cerrno>

#include "base/error.h"
#include "fault/fault_os.h"
#include "repack/repack.h"
#include "scratch.h"

using namespace planesmith;

namespace {

const std::string kMini = SOURCE_DIR "/tests/golden/ds4-mini/checkpoint";

struct Bench {
  Scratch scratch;
  RepackOptions options;
  std::map<std::string, std::string> want;  // by name
  int threads = 1;

  explicit Bench(LinkMode link) {
    options.source = kMini;
    options.link = link;
    options.target = scratch / "want";
    repack(Context{}, options);
    for (const std::string& name : list_dir(posix(), options.target))
      if (name[0] != '.') want[name] = file_contents(scratch / ("want/" + name));
    std::filesystem::remove_all(options.target);
    std::filesystem::create_directory(scratch / "root");
    options.target = scratch / "root/out";
  }

  void prepare() const { std::filesystem::remove_all(options.target); }
  void work(Os& os) const { repack(Context{.os = os, .threads = threads}, options); }

  // What is there is right; then the work is done again and everything is right.
  void check(const FaultOs& os) const {
    CAPTURE(os.hit_at());
    if (std::filesystem::exists(options.target))
      for (const std::string& name : list_dir(posix(), options.target))
        if (name[0] != '.' && !name.ends_with(".tmp"))
          CHECK(file_contents(options.target + "/" + name) == want.at(name));
    work(posix());
    std::map<std::string, std::string> got;
    for (const std::string& name : list_dir(posix(), options.target))
      if (name[0] != '.') got[name] = file_contents(options.target + "/" + name);
    CHECK((got == want));
    CHECK(list_dir(posix(), options.target + "/.repack-experts").size() ==
          (options.link == LinkMode::copy ? want.size() : 2) + 1);
  }
};

}  // namespace

TEST_CASE("build: every operation that can fail fails once, or for good") {
  Bench bench(LinkMode::sym);
  for (const auto& [threads, lasting] :
       {std::pair{1, false}, std::pair{1, true}, std::pair{3, false}, std::pair{3, true}}) {
    bench.threads = threads;
    const std::uint64_t faults = fail_each(
        bench.scratch / "root",
        lasting        ? ENOSPC
        : threads == 3 ? EMFILE
                       : EIO,
        lasting, [&] { bench.prepare(); }, [&](Os& os) { bench.work(os); },
        [&](const FaultOs& os) { bench.check(os); });
    CHECK(faults > 20);
  }
}

TEST_CASE("build: the power goes after every operation") {
  Bench bench(LinkMode::sym);
  for (const int threads : {1, 3}) {
    bench.threads = threads;
    const std::uint64_t faults = crash_each(
        bench.scratch / "root", [&] { bench.prepare(); }, [&](Os& os) { bench.work(os); },
        [&](const FaultOs& os) { bench.check(os); });
    CHECK(faults > 20);
  }
}

TEST_CASE("build: short and interrupted transfers change nothing") {
  const Bench bench(LinkMode::copy);
  FaultOs os(bench.scratch / "root", Fault::slow_and_interrupted());
  bench.work(os);
  bench.check(os);
}

TEST_CASE("build: a stop keeps what is finished and leaves nothing half-written") {
  const Bench bench(LinkMode::sym);
  struct StopSoon : Progress {
    Stop stop;
    void begin(std::string_view, std::uint64_t) override {}
    void advance(std::uint64_t) override {
      if (++pieces == 11) stop.request(2);  // the first of the second file
    }
    void end() override {}
    void say(std::string_view) override {}
    int pieces = 0;
  } progress;
  CHECK_THROWS_AS(repack(Context{.progress = progress, .stop = &progress.stop}, bench.options), Error);
  CHECK(std::filesystem::exists(bench.options.target + "/model-00002-of-00004.safetensors"));
  CHECK(list_dir(posix(), bench.options.target).size() == 2);  // that file and the records
  bench.check(FaultOs(bench.scratch / "root", {}));
}
