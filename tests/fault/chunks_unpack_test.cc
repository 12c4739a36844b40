// Unpacking when operations fail and when the process or the machine stops at any moment: files with final
// names are right, a part is removed only when its content is durable, and the next run produces the tree
// that was packed.
#include <doctest/doctest.h>
#include <errno.h>

#include "base/error.h"
#include "chunks/unpack.h"
#include "chunks_tree.h"
#include "fault/fault_os.h"

using namespace planesmith;

namespace {

// Every name with its mode and content; where a link leads.
using Tree = std::map<std::string, std::string>;
Tree tree_of(const std::string& directory) {
  namespace fs = std::filesystem;
  Tree tree;
  for (const auto& entry : fs::recursive_directory_iterator(directory)) {
    const std::string name = entry.path().lexically_relative(directory);
    struct stat st {};
    REQUIRE(::lstat(entry.path().c_str(), &st) == 0);
    tree[name] = entry.is_symlink() ? "-> " + fs::read_symlink(entry.path()).string()
                                    : std::to_string(st.st_mode) +
                                          (entry.is_regular_file() ? " " + file_contents(entry.path()) : "");
  }
  return tree;
}

class Bench {
  const Scratch scratch_;  // declared before members that use its path

 public:
  const std::string root = scratch_ / "root", out = root + "/out", parts = root + "/parts";
  chunks::UnpackOptions options{.out = out};
  bool manifest = true, others_there = false;
  int threads = 1;

  Bench() {
    const std::string source = scratch_ / "source/tree";
    std::filesystem::create_directories(source + "/sub/empty");
    put_file(source + "/noise", chunks_tree::noise(14'000, 1));
    put_file(source + "/sub/text", "text");
    put_file(source + "/sparse", std::string(140'000, '\0') + "end");
    std::filesystem::create_symlink("../noise", source + "/sub/link");
    std::filesystem::create_hard_link(source + "/noise", source + "/sub/same");
    ::chmod((source + "/noise").c_str(), 0640);
    ::chmod((source + "/sub/empty").c_str(), 0750);
    want_ = tree_of(scratch_ / "source");
    chunks::PackOptions pack = chunks_tree::small_parts(source, packed());
    pack.frame_size = chunks::kMinFrameSize;
    pack.part_size = 10'000;
    chunks_tree::pack(pack, Context{});
  }

  void prepare() const {
    namespace fs = std::filesystem;
    fs::remove_all(root);
    fs::create_directories(out);
    copy_tree(packed(), parts);
    if (!manifest) fs::remove(parts + "/manifest.set.json");
    if (!others_there) return;
    fs::create_directories(out + "/tree");
    put_file(out + "/tree/noise", kOther);
  }

  void work(Os& os) const {
    const Context context{.os = os, .threads = threads};
    chunks::unpack(chunks::find_chunks({parts}, "", "", context), -1, options, context);
  }

  // What has a name in the output at this moment is right; what is being made has none.
  void check_readable() const {
    const Tree now = tree_of(out);
    for (const auto& [path, content] : now) {
      const std::string& name = path;  // which lambdas can capture
      if (name.starts_with(".set.unpack")) continue;
      CAPTURE(name);
      REQUIRE(want_.contains(name));
      struct stat st {};
      REQUIRE(::lstat((out + "/" + name).c_str(), &st) == 0);
      if (S_ISDIR(st.st_mode)) continue;  // its mode comes at the end
      const bool other = others_there && content.ends_with(kOther);
      CHECK((other || content == want_.at(name)));
    }
  }
  void check_done() const {
    CHECK((tree_of(out) == want_));
    const std::vector<std::string> left = list_dir(posix(), parts);
    if (options.stream_delete)
      CHECK(left == std::vector<std::string>{"SHA256SUMS.set", "manifest.set.json"});
    else
      CHECK(left.size() >= 2);
  }
  void check(const FaultOs& os) const {
    CAPTURE(os.hit_at());
    check_readable();
    work(posix());
    check_done();
  }

 private:
  static constexpr const char* kOther = "other contents";
  std::string packed() const { return scratch_ / "packed"; }
  Tree want_;
};

std::uint64_t fail_all(const Bench& bench, int error, bool lasting) {
  CAPTURE(error);
  return fail_each(
      bench.root, error, lasting, [&] { bench.prepare(); }, [&](Os& os) { bench.work(os); },
      [&](const FaultOs& os) {
        if (error == EINTR) bench.check_done();
        bench.check(os);
      });
}

std::uint64_t crash_all(const Bench& bench) {
  return crash_each(
      bench.root, [&] { bench.prepare(); }, [&](Os& os) { bench.work(os); },
      [&](const FaultOs& os) { bench.check(os); });
}

// The ways to unpack, each by itself.
void for_each_way(const std::function<void(const Bench&)>& test) {
  Bench bench;
  test(bench);
  bench.manifest = false;
  test(bench);
  bench.manifest = true;
  bench.options.stream_delete = true;
  test(bench);
  bench.options.stream_delete = false;
  bench.options.force = bench.others_there = true;
  test(bench);
}

}  // namespace

TEST_CASE("unpack survives the failure of every operation") {
  std::uint64_t failures = 0;
  for_each_way([&](const Bench& bench) {
    failures += fail_all(bench, EIO, false);
    failures += fail_all(bench, ENOSPC, true);
    failures += fail_all(bench, EDQUOT, false);
    failures += fail_all(bench, EROFS, true);
    failures += fail_all(bench, EINTR, false);
  });
  Bench bench;
  bench.threads = 3;
  failures += fail_all(bench, EIO, true);
  failures += fail_all(bench, ENOSPC, false);
  MESSAGE("unpack, operations failed: ", failures);
  CHECK(failures > 500);
}

TEST_CASE("unpack survives a crash after every operation") {
  std::uint64_t crashes = 0;
  for_each_way([&](const Bench& bench) { crashes += crash_all(bench); });
  Bench bench;
  bench.threads = 3;
  crashes += crash_all(bench);
  MESSAGE("unpack, crashes: ", crashes);
  CHECK(crashes > 4 * 150);
}

TEST_CASE("unpack survives a second crash while it continues after the first") {
  Bench bench;
  bench.options.stream_delete = true;
  const std::uint64_t crashes = crash_each(
      bench.root,
      [&] {
        bench.prepare();
        FaultOs os(bench.root, Fault::crash_after(30));
        try {
          bench.work(os);
        } catch (const Error&) {
        }
        REQUIRE(os.hit());
      },
      [&](Os& os) { bench.work(os); }, [&](const FaultOs& os) { bench.check(os); });
  MESSAGE("unpack, second crashes: ", crashes);
  CHECK(crashes > 4 * 20);
}

TEST_CASE("unpack copes with short and interrupted transfers") {
  for_each_way([](const Bench& bench) {
    bench.prepare();
    FaultOs os(bench.root, Fault::slow_and_interrupted());
    bench.work(os);
    bench.check_done();
  });
}
