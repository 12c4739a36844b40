// Packing: the same bytes under all circumstances, never above the part size, continued where it stopped.
#include <doctest/doctest.h>
#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include "base/error.h"
#include "chunks/pack.h"
#include "chunks/scan.h"
#include "chunks_tree.h"

using namespace planesmith;
using namespace planesmith::chunks;
using chunks_tree::contents;
using chunks_tree::make_tree;
using chunks_tree::small_parts;

namespace {

Context with_threads(int threads) {
  Context context;
  context.threads = threads;
  return context;
}

bool is_part(const std::string& name) {
  return name.starts_with("set.");
}

// Stops the run once so much was packed.
class StopAfter : public Progress {
 public:
  StopAfter(Stop& stop, std::uint64_t bytes) : stop_(stop), left_(bytes) {}
  void begin(std::string_view, std::uint64_t) override {}
  void advance(std::uint64_t bytes) override {
    if (bytes >= left_) stop_.request(SIGTERM);
    left_ -= std::min(left_, bytes);
  }
  void end() override {}
  void say(std::string_view) override {}

 private:
  Stop& stop_;
  std::uint64_t left_;
};

}  // namespace

TEST_CASE("names, sizes and holes are found, and nothing depends on what is allocated") {
  const Scratch scratch;
  make_tree(scratch / "tree");
  const Tree tree = scan({.sources = {scratch / "tree"}}, Context{});
  REQUIRE(tree.members.size() == 12);
  const auto find = [&](const std::string& path) -> const Member& {
    for (const Member& member : tree.members)
      if (member.path == path) return member;
    throw Error(path, "is missing");
  };
  CHECK(tree.members[0].path == "tree");
  CHECK(find("tree/sub/link").target == "../noise.bin");
  CHECK(find("tree/sub/other-name").target == "tree/noise.bin");
  CHECK(find("tree/text.txt").mode == 0640);
  CHECK(find("tree/zeros").extents == std::vector<Extent>{{3 * 65536, 200'000 - 3 * 65536, 0}});
  const auto& extents = find("tree/sparse.bin").extents;
  REQUIRE(extents.size() == 4);
  CHECK(extents[0] == Extent{0, 65536, 0});
  CHECK(extents[1] == Extent{3 * 65536, 2 * 65536, 65536});
  CHECK(extents[2] == Extent{(17 * kMiB - 1000) / 65536 * 65536, 6 * 65536, 3 * 65536});
  CHECK(extents[3] == Extent{20 * kMiB, 5, 9 * 65536});

  put_file(scratch / "tree/sparse.bin",
           file_contents(scratch / "tree/sparse.bin"));  // the same, all of it allocated
  const Tree allocated = scan({.sources = {scratch / "tree"}}, Context{});
  for (std::size_t m = 0; m < tree.members.size(); ++m)
    CHECK(tree.members[m].extents == allocated.members[m].extents);
}

TEST_CASE("thread count, allocation, times and place do not change a byte") {
  const Scratch scratch;
  make_tree(scratch / "tree");
  chunks_tree::pack(small_parts(scratch / "tree", scratch / "one"), with_threads(1));
  const auto expected = contents(scratch / "one");
  CHECK(expected.size() > 4);
  for (const auto& [name, content] : expected)
    if (is_part(name)) CHECK(content.size() <= 150'000);

  chunks_tree::pack(small_parts(scratch / "tree", scratch / "eight"), with_threads(8));
  CHECK(contents(scratch / "eight") == expected);

  std::filesystem::create_directories(scratch / "elsewhere");
  make_tree(scratch / "elsewhere/tree");
  put_file(scratch / "elsewhere/tree/sparse.bin", file_contents(scratch / "tree/sparse.bin"));
  chunks_tree::pack(small_parts(scratch / "elsewhere/tree/", scratch / "two"), with_threads(3));
  CHECK(contents(scratch / "two") == expected);

  std::string stream;
  for (const auto& [name, content] : expected)
    if (is_part(name)) stream += content;
  const auto options = small_parts(scratch / "tree", "");
  const int fd = ::open((scratch / "stream").c_str(), O_CREAT | O_WRONLY, 0666);
  pack_to_stream(plan_pack(options, with_threads(2)), options, fd, with_threads(2));
  ::close(fd);
  CHECK(file_contents(scratch / "stream") == stream);
}

TEST_CASE("a run that was stopped goes on, with the same bytes; a finished one is left alone") {
  const Scratch scratch;
  make_tree(scratch / "tree");
  const auto options = small_parts(scratch / "tree", scratch / "out");
  auto undisturbed = options;
  undisturbed.out = scratch / "whole";
  chunks_tree::pack(undisturbed, with_threads(2));
  const auto expected = contents(scratch / "whole");

  std::size_t kept = 0;
  for (std::uint64_t bytes = 100'000; bytes < 600'000; bytes += 100'000) {
    CAPTURE(bytes);
    std::filesystem::remove_all(scratch / "out");
    Stop stop;
    StopAfter progress(stop, bytes);
    Context context{.progress = progress, .stop = &stop, .threads = 2};
    try {
      chunks_tree::pack(options, context);
      FAIL_CHECK("was not stopped");
    } catch (const Error& error) {
      CHECK(error.code() == ErrorCode::terminated);
    }
    for (const auto& [name, content] : contents(scratch / "out")) CHECK(!name.ends_with(".tmp"));
    auto going_on = options;
    going_on.recheck = bytes % 200'000 == 0;
    kept += chunks_tree::pack(going_on, with_threads(2)).parts_kept;
    CHECK(contents(scratch / "out") == expected);
  }
  CHECK(kept > 4);

  put_file(scratch / "out/set.tar.zst.part.000.tmp", "left over");
  put_file(scratch / "out/manifest.set.json.tmp", "left over");
  const PackResult again = chunks_tree::pack(options, with_threads(2));
  CHECK(again.parts_kept == again.manifest.parts.size());
  CHECK(contents(scratch / "out") == expected);
}

TEST_CASE("what is not this run's is refused, or replaced by force") {
  const Scratch scratch;
  make_tree(scratch / "tree");
  auto options = small_parts(scratch / "tree", scratch / "out");
  chunks_tree::pack(options, with_threads(2));
  const auto first = contents(scratch / "out");
  const auto refused = [&] {
    try {
      chunks_tree::pack(options, with_threads(2));
      return false;
    } catch (const Error& error) {
      return error.code() == ErrorCode::failed && std::string(error.what()).find("-f") != std::string::npos;
    }
  };
  const auto forced = [&] {
    options.force = true;
    chunks_tree::pack(options, with_threads(2));
    options.force = false;
    return contents(scratch / "out");
  };

  SUBCASE("other content of the same size") {
    put_file(scratch / "tree/text.txt", std::string(70'000, 'y'));
    CHECK(refused());
    CHECK(contents(scratch / "out") == first);
    CHECK(forced() != first);
  }
  SUBCASE("other options") {
    options.part_size = 400'000;
    CHECK(refused());
    CHECK(forced().size() < first.size());
  }
  SUBCASE("another mode") {
    ::chmod((scratch / "tree/text.txt").c_str(), 0600);
    CHECK(refused());
  }
  SUBCASE("a part is missing") {
    std::filesystem::remove(scratch / "out/set.tar.zst.part.001");
    CHECK(refused());
    CHECK(forced() == first);
  }
  SUBCASE("parts that nobody knows, and no manifest") {
    std::filesystem::remove(scratch / "out/manifest.set.json");
    CHECK(refused());
    CHECK(forced() == first);
  }
}

TEST_CASE("what cannot be packed as asked is refused before anything is written") {
  const Scratch scratch;
  make_tree(scratch / "tree");
  auto options = small_parts(scratch / "tree", scratch / "out");
  const auto refused = [&](ErrorCode code) {
    try {
      plan_pack(options, Context{.threads = 4});
      return false;
    } catch (const Error& error) {
      return error.code() == code;
    }
  };
  SUBCASE("a part must hold a frame") {
    options.part_size = options.frame_size + 1;
    CHECK(refused(ErrorCode::usage));
  }
  SUBCASE("levels end at 19") {
    options.level = 20;
    CHECK(refused(ErrorCode::usage));
  }
  SUBCASE("frames of a bearable size") {
    options.frame_size = 2 * kGiB;
    CHECK(refused(ErrorCode::usage));
    options.frame_size = 1;
    CHECK(refused(ErrorCode::usage));
  }
  SUBCASE("the output lies in what is packed") {
    options.out = scratch / "tree/sub/new/out";
    CHECK(refused(ErrorCode::usage));
  }
  SUBCASE("two sources of one name") {
    std::filesystem::create_directories(scratch / "other/tree");
    options.sources.push_back(scratch / "other/tree");
    CHECK(refused(ErrorCode::usage));
  }
  SUBCASE("a FIFO") {
    ::mkfifo((scratch / "tree/fifo").c_str(), 0666);
    CHECK(refused(ErrorCode::failed));
  }
  SUBCASE("a name that is not UTF-8") {
    put_file(scratch / "tree/\xff", "");
    CHECK(refused(ErrorCode::failed));
  }
  SUBCASE("nothing there") {
    options.sources = {scratch / "absent"};
    CHECK(refused(ErrorCode::failed));
  }
  CHECK(!std::filesystem::exists(scratch / "out"));
}

TEST_CASE("a disk that is too small is found before the start where sizes are known, and told of where not") {
  struct SmallDisk : Os {
    std::uint64_t free = 0;
    int statvfs(const char*, struct statvfs* out) override {
      *out = {};
      out->f_frsize = 1;
      out->f_bavail = free;
      return 0;
    }
  } disk;
  struct Listener : Progress {
    std::string said;
    void begin(std::string_view, std::uint64_t) override {}
    void advance(std::uint64_t) override {}
    void end() override {}
    void say(std::string_view line) override { said += line; }
  } listener;
  const Scratch scratch;
  make_tree(scratch / "tree");
  auto options = small_parts(scratch / "tree", scratch / "out/below");
  options.level = 0;
  const Context context{.os = disk, .progress = listener};
  chunks_tree::pack(options, Context{});
  std::uint64_t exact = 0;
  for (const auto& [name, content] : contents(options.out))
    if (is_part(name)) exact += content.size();

  CHECK(plan_pack(options, context).most_bytes == exact);  // all of it is there already
  std::filesystem::remove_all(scratch / "out");
  disk.free = exact;
  CHECK(plan_pack(options, context).most_bytes == exact);
  CHECK(listener.said.empty());
  disk.free = exact - 1;
  CHECK_THROWS_WITH_AS(plan_pack(options, context), doctest::Contains("are needed"), Error);
  std::filesystem::create_directories(options.out);
  put_file(options.out + "/set.tar.zst.part.000.tmp", "x");
  CHECK(plan_pack(options, context).most_bytes == exact);

  options.level = 1;
  disk.free = 1000;
  plan_pack(options, context);
  CHECK(listener.said.find("If the disk fills up") != std::string::npos);
}

TEST_CASE("memory is what --memory allows") {
  const Scratch scratch;
  put_file(scratch / "f", chunks_tree::noise(20'000'000, 1));
  auto options = small_parts(scratch / "f", scratch / "out");
  options.frame_size = kMiB;
  options.part_size = 10 * kMiB;
  Context context{.threads = 16};
  const PackPlan plenty = plan_pack(options, context);
  CHECK(plenty.threads == 16);
  context.memory = plenty.memory / 2;
  const PackPlan less = plan_pack(options, context);
  CHECK(less.threads > 1);
  CHECK(less.threads < 16);
  CHECK(less.memory <= context.memory);
  context.memory = kMiB;
  CHECK_THROWS_AS(plan_pack(options, context), Error);
}

TEST_CASE("the suffix has as many digits as the largest possible number of parts") {
  CHECK(part_digits(1) == 3);
  CHECK(part_digits(1000) == 3);
  CHECK(part_digits(1001) == 4);
  CHECK(part_name("n", 7, 4) == "n.tar.zst.part.0007");
  const Scratch scratch;
  put_file(scratch / "f", std::string(5'000'000, 'x'));  // compresses to next to nothing
  auto options = small_parts(scratch / "f", scratch / "out");
  options.frame_size = 4096;
  options.part_size = 4500;
  chunks_tree::pack(options, with_threads(2));
  CHECK(std::filesystem::exists(scratch / "out/set.tar.zst.part.0000"));
}
