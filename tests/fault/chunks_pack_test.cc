// Packing when operations fail and when the process or the machine stops at any moment: a part or manifest
// with its final name is complete, all parts of a manifest exist, and the next run produces the bytes of an
// undisturbed one.
#include <doctest/doctest.h>
#include <errno.h>

#include "base/error.h"
#include "chunks_tree.h"
#include "fault/fault_os.h"

using namespace planesmith;
using chunks_tree::contents;

namespace {

using Files = std::map<std::string, std::string>;  // name -> content

chunks::PackOptions options_for(const std::string& source, const std::string& out) {
  chunks::PackOptions options = chunks_tree::small_parts(source, out);
  options.frame_size = chunks::kMinFrameSize;
  options.part_size = 10'000;
  return options;
}

class Bench {
  const Scratch scratch_;  // declared before members that use its path

 public:
  const std::string root = scratch_ / "root";
  chunks::PackOptions options = options_for(scratch_ / "tree", root + "/out");
  int threads = 1;

  Bench() {
    std::filesystem::create_directories(scratch_ / "tree/sub");
    put_file(scratch_ / "tree/noise", chunks_tree::noise(19'000, 1));
    put_file(scratch_ / "tree/sub/text", "text");
    put_file(scratch_ / "tree/sparse", std::string(140'000, '\0') + "end");
    std::filesystem::create_symlink("noise", scratch_ / "tree/link");
    std::filesystem::create_hard_link(scratch_ / "tree/noise", scratch_ / "tree/sub/same");
    make(scratch_ / "tree", want_);
    std::filesystem::create_directories(scratch_ / "other/tree");
    put_file(scratch_ / "other/tree/noise", chunks_tree::noise(45'000, 2));
    make(scratch_ / "other/tree", old_);
    REQUIRE(want_.size() >= 4);
    REQUIRE(old_.size() > want_.size());
  }

  void prepare(const Files& there) const {
    std::filesystem::remove_all(root);
    std::filesystem::create_directories(options.out);
    for (const auto& [name, content] : there) put_file(options.out + "/" + name, content);
  }
  void prepare() const { prepare(options.force ? old_ : Files{}); }

  void work(Os& os) const { chunks_tree::pack(options, Context{.os = os, .threads = threads}); }

  // What an uploader or a reader may take at this moment.
  void check_readable() const {
    const Files now = contents(options.out);
    const auto manifest = now.find("manifest.set.json");
    const bool whole = manifest != now.end();
    const Files& right =
        whole && options.force && manifest->second == old_.at("manifest.set.json") ? old_ : want_;
    for (const auto& [path, content] : now) {
      const std::string& name = path;  // which lambdas can capture
      if (name.ends_with(".tmp") || name.starts_with(".set.pack/")) continue;
      CAPTURE(name);
      const bool known = (want_.contains(name) && content == want_.at(name)) ||
                         (options.force && old_.contains(name) && content == old_.at(name));
      CHECK(known);
      if (whole && right.contains(name)) CHECK((content == right.at(name)));
    }
    if (whole && &right == &want_)
      for (const auto& [name, content] : want_) CHECK(now.contains(name));
  }
  void check_done() const { CHECK((contents(options.out) == want_)); }
  void check(const FaultOs& os) const {
    CAPTURE(os.hit_at());
    check_readable();
    work(posix());
    check_done();
  }

  const Files& want() const { return want_; }

 private:
  void make(const std::string& source, Files& files) const {
    const chunks::PackOptions undisturbed = options_for(source, scratch_ / "undisturbed");
    chunks_tree::pack(undisturbed, Context{});
    files = contents(undisturbed.out);
    std::filesystem::remove_all(undisturbed.out);
  }

  Files want_, old_;  // of the tree, and of another that was packed under the same name
};

}  // namespace

TEST_CASE("pack survives the failure of every operation") {
  Bench bench;
  std::uint64_t failures = 0;
  const auto fail_with = [&](int error, bool lasting) {
    CAPTURE(error);
    failures += fail_each(
        bench.root, error, lasting, [&] { bench.prepare(); }, [&](Os& os) { bench.work(os); },
        [&](const FaultOs& os) {
          if (error == EINTR) bench.check_done();
          bench.check(os);
        });
  };
  for (const bool force : {false, true}) {
    bench.options.force = force;
    fail_with(EIO, false);
    fail_with(ENOSPC, true);
    fail_with(EDQUOT, false);
    fail_with(EROFS, true);
    fail_with(EINTR, false);
  }
  bench.threads = 3;
  fail_with(EIO, true);
  fail_with(ENOSPC, false);
  MESSAGE("pack, operations failed: ", failures);
  CHECK(failures > 500);
}

TEST_CASE("pack survives a crash after every operation") {
  Bench bench;
  std::uint64_t crashes = 0;
  const auto crash = [&] {
    crashes += crash_each(
        bench.root, [&] { bench.prepare(); }, [&](Os& os) { bench.work(os); },
        [&](const FaultOs& os) { bench.check(os); });
  };
  crash();
  bench.options.force = true;
  crash();
  bench.options.force = false;
  bench.threads = 3;
  crash();
  MESSAGE("pack, crashes: ", crashes);
  CHECK(crashes > 4 * 90);
}

TEST_CASE("pack survives a second crash while it continues after the first") {
  const Bench bench;
  const std::uint64_t crashes = crash_each(
      bench.root,
      [&] {
        bench.prepare();
        FaultOs os(bench.root, Fault::crash_after(25));
        try {
          bench.work(os);
        } catch (const Error&) {
        }
        REQUIRE(os.hit());
        REQUIRE(std::filesystem::exists(bench.options.out + "/set.tar.zst.part.000"));
      },
      [&](Os& os) { bench.work(os); }, [&](const FaultOs& os) { bench.check(os); });
  MESSAGE("pack, second crashes: ", crashes);
  CHECK(crashes > 4 * 15);
}

TEST_CASE("pack copes with short and interrupted transfers") {
  Bench bench;
  for (const int threads : {1, 3}) {
    bench.threads = threads;
    bench.prepare();
    FaultOs os(bench.root, Fault::slow_and_interrupted());
    bench.work(os);
    bench.check_done();
  }
}

TEST_CASE("a pack that fails leaves no half part, and nothing at all where nothing was finished") {
  const Bench bench;
  bench.prepare();
  FaultOs os(bench.root, Fault::fail(3, ENOSPC, true));  // the first bytes of the first part
  CHECK_THROWS_WITH_AS(bench.work(os), doctest::Contains("free some space"), Error);
  CHECK(contents(bench.options.out).empty());
}
