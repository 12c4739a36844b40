// Planning to pack: what is refused before anything is written, the space and the memory that it takes.
#include <doctest/doctest.h>
#include <sys/stat.h>

#include "base/error.h"
#include "chunks/pack.h"
#include "chunks_tree.h"

using namespace planesmith;
using namespace planesmith::chunks;
using chunks_tree::contents;
using chunks_tree::is_part;
using chunks_tree::make_tree;
using chunks_tree::small_parts;

TEST_CASE("another run may remove its unfinished parts while the space is counted") {
  class Removing : public Os {
   public:
    int access(const char* path, int mode) override {
      const int result = Os::access(path, mode);
      if (std::string_view(path).ends_with("/.set.pack")) removed += std::filesystem::remove_all(path);
      return result;
    }
    std::uintmax_t removed = 0;
  };
  const Scratch scratch;
  make_tree(scratch / "tree");
  const auto options = small_parts(scratch / "tree", scratch / "out");
  std::filesystem::create_directories(scratch / "out/.set.pack");
  put_file(scratch / "out/.set.pack/000", "left over");
  Removing os;
  CHECK_NOTHROW(plan_pack(options, Context{.os = os}));
  CHECK(os.removed == 2);
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
  SUBCASE("frames of a sensible size") {
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

TEST_CASE("a disk that is too small is found before the start if sizes are known") {
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
  CHECK_THROWS_WITH_AS(plan_pack(options, context), doctest::Contains("not enough space"), Error);
  std::filesystem::create_directories(options.out);
  std::filesystem::create_directories(options.out + "/.set.pack");
  put_file(options.out + "/.set.pack/000", "x");
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
  CHECK(plenty.lanes.threads == 16);
  context.memory = plenty.memory / 2;
  const PackPlan less = plan_pack(options, context);
  CHECK(less.lanes.threads > 1);
  CHECK(less.lanes.threads < 16);
  CHECK(less.memory <= context.memory);
  context.memory = kMiB;
  CHECK_THROWS_AS(plan_pack(options, context), Error);
}
