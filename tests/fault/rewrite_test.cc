// repack-experts quantize and translate when operations fail and when the process or the machine stops at any
// moment, with one thread and with three: no wrong shard has a final name, the index appears only after all
// that it lists, the source is unchanged, and the next run finishes the work.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <cerrno>
#include <map>
#include <tuple>

#include "base/error.h"
#include "fault/fault_os.h"
#include "rewrite/quantize.h"
#include "rewrite/translate.h"
#include "rewrite_checkpoints.h"
#include "scratch.h"

using namespace planesmith;
using namespace planesmith::test;

namespace {

class Bench {
  const Scratch scratch_;

 public:
  const std::string root = scratch_ / "root";
  int threads = 1;

  explicit Bench(bool quantizes) : quantizes_(quantizes) {
    if (quantizes)
      make_floats(scratch_ / "source");
    else
      make_packed(scratch_ / "source");
    source_ = contents(scratch_ / "source");
    options_.source = scratch_ / "source";
    options_.link = LinkMode::copy;
    options_.target = scratch_ / "want";
    work(posix());
    want_ = contents(options_.target);
    REQUIRE(want_.contains("model-1.safetensors"));
    REQUIRE(want_ != source_);
    std::filesystem::create_directory(root);
    options_.target = root + "/out";
  }
  void prepare() const { std::filesystem::remove_all(options_.target); }
  void work(Os& os) const {
    const Context context{.os = os, .threads = threads};
    if (quantizes_)
      quantize(context, Fp4::nvfp4, options_);
    else
      translate(context, {.rewrite = options_});
  }
  // What is there is right, then the work is done again and everything is right.
  void check(const FaultOs& os) const {
    CAPTURE(os.hit_at());
    CHECK((contents(options_.source) == source_));
    if (std::filesystem::exists(options_.target)) {
      const Files now = contents(options_.target);
      for (const auto& [path, bytes] : now)
        if (!path.ends_with(".tmp")) CHECK((bytes == want_.at(path)));
      if (now.contains("model.safetensors.index.json"))
        for (const auto& [path, bytes] : want_) CHECK(now.contains(path));
    }
    work(posix());
    CHECK((contents(options_.target) == want_));
  }

 private:
  using Files = std::map<std::string, std::string>;
  // By name, records aside.
  static Files contents(const std::string& directory) {
    Files out;
    for (const std::string& name : list_dir(posix(), directory))
      if (name[0] != '.') out[name] = file_contents(directory + "/" + name);
    return out;
  }
  const bool quantizes_;
  RewriteOptions options_;
  Files source_, want_;
};

}  // namespace

TEST_CASE("quantize and translate: every operation that can fail fails once, or for good") {
  for (const bool quantizes : {true, false}) {
    Bench bench(quantizes);
    std::uint64_t faults = 0;
    for (const auto& [threads, error, lasting] : {std::tuple{1, EIO, false}, std::tuple{1, ENOSPC, true},
                                                  std::tuple{3, EMFILE, false}, std::tuple{3, EIO, true}}) {
      bench.threads = threads;
      faults += fail_each(
          bench.root, error, lasting, [&] { bench.prepare(); }, [&](Os& os) { bench.work(os); },
          [&](const FaultOs& os) { bench.check(os); });
    }
    MESSAGE("operations failed in turn: ", faults);
    CHECK(faults > 200);
  }
}

TEST_CASE("quantize and translate: the power goes after every operation") {
  for (const bool quantizes : {true, false}) {
    Bench bench(quantizes);
    for (const int threads : {1, 3}) {
      bench.threads = threads;
      const std::uint64_t crashes = crash_each(
          bench.root, [&] { bench.prepare(); }, [&](Os& os) { bench.work(os); },
          [&](const FaultOs& os) { bench.check(os); });
      CHECK(crashes > 50);
    }
  }
}

TEST_CASE("quantize: short and interrupted transfers change nothing") {
  Bench bench(true);
  for (const int threads : {1, 3}) {
    bench.threads = threads;
    bench.prepare();
    FaultOs os(bench.root, Fault::slow_and_interrupted());
    bench.work(os);
    bench.check(os);
  }
}
