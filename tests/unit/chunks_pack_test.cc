// Packing: the same bytes under all circumstances, never above the part size, continued where it stopped.
#include <doctest/doctest.h>
#include <fcntl.h>
#include <unistd.h>

#include "base/error.h"
#include "chunks/frame_grid.h"
#include "chunks/pack.h"
#include "chunks/remake.h"
#include "chunks/scan.h"
#include "chunks_tree.h"
#include "stop_after.h"

using namespace planesmith;
using namespace planesmith::chunks;
using chunks_tree::contents;
using chunks_tree::is_part;
using chunks_tree::make_tree;
using chunks_tree::small_parts;

namespace {

Context with_threads(int threads) {
  Context context;
  context.threads = threads;
  return context;
}

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
  auto options = small_parts(scratch / "tree", "");
  const int fd = ::open((scratch / "stream").c_str(), O_CREAT | O_WRONLY, 0666);
  pack_to_stream(plan_pack(options, with_threads(2)), options, fd, with_threads(2));
  ::close(fd);
  CHECK(file_contents(scratch / "stream") == stream);
}

TEST_CASE("a stopped run continues with the same bytes; a finished one is left alone") {
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
    for (const auto& [name, content] : contents(scratch / "out"))
      CHECK((!name.starts_with(".") || name.ends_with(".json")));  // records of finished parts only
    auto going_on = options;
    going_on.recheck = bytes % 200'000 == 0;
    kept += chunks_tree::pack(going_on, with_threads(2)).parts_kept;
    CHECK(contents(scratch / "out") == expected);
  }
  CHECK(kept > 4);

  std::filesystem::create_directory(scratch / "out/.set.pack");
  ::chmod((scratch / "out/.set.pack").c_str(), 0700);
  put_file(scratch / "out/.set.pack/000", "left over");
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
  SUBCASE("parts of an unfinished run that found other files") {
    std::filesystem::remove(scratch / "out/manifest.set.json");
    for (const auto& entry : std::filesystem::directory_iterator(scratch / "out"))
      if (entry.path().filename() != "set.tar.zst.part.000") std::filesystem::remove(entry.path());
    CHECK(refused());
  }
  SUBCASE("parts of an unknown run, and no manifest") {
    std::filesystem::remove(scratch / "out/manifest.set.json");
    CHECK(refused());
    CHECK(forced() == first);
  }
}

TEST_CASE("a part that is missing or damaged is made again, by itself") {
  const Scratch scratch;
  make_tree(scratch / "tree");
  auto options = small_parts(scratch / "tree", scratch / "out");
  const std::size_t parts = chunks_tree::pack(options, with_threads(2)).manifest.parts.size();
  REQUIRE(parts > 2);
  const auto expected = contents(scratch / "out");
  const auto others = [&] {  // inodes: nothing but the one part is replaced
    std::map<std::string, ino_t> inodes;
    for (const auto& entry : std::filesystem::directory_iterator(scratch / "out")) {
      struct stat st {};
      if (::stat(entry.path().c_str(), &st) == 0 && entry.path().filename() != "set.tar.zst.part.001")
        inodes[entry.path()] = st.st_ino;
    }
    return inodes;
  };
  const auto before = others();
  const std::string part = scratch / "out/set.tar.zst.part.001", good = file_contents(part);
  for (const std::string& damage : {std::string(), good.substr(1), good + "x"}) {
    put_file(part, damage);
    if (damage.empty()) std::filesystem::remove(part);
    CHECK(chunks_tree::pack(options, with_threads(2)).parts_kept == parts - 1);
    CHECK(contents(scratch / "out") == expected);
    CHECK(others() == before);
  }
  std::string damaged = good;
  damaged[damaged.size() / 2] ^= 1;
  put_file(part, damaged);
  CHECK(chunks_tree::pack(options, with_threads(2)).parts_kept == parts);  // nothing asked for its content
  options.recheck = true;
  CHECK(chunks_tree::pack(options, with_threads(2)).parts_kept == parts - 1);
  CHECK(contents(scratch / "out") == expected);

  // The same from the files alone, under another name and by their parent.
  std::filesystem::create_directories(scratch / "moved");
  std::filesystem::rename(scratch / "tree", scratch / "moved/other-name");
  put_file(part, damaged);
  remake_parts(scratch / "out/manifest.set.json", {1}, scratch / "moved/other-name", with_threads(2));
  CHECK(contents(scratch / "out") == expected);
  std::filesystem::rename(scratch / "moved/other-name", scratch / "moved/tree");
  std::filesystem::remove(part);
  remake_parts(scratch / "out/manifest.set.json", {1}, scratch / "moved", with_threads(2));
  CHECK(contents(scratch / "out") == expected);
  put_file(part, damaged);
  put_file(scratch / "moved/tree/noise.bin", chunks_tree::noise(150'000, 5));
  CHECK_THROWS_WITH_AS(
      remake_parts(scratch / "out/manifest.set.json", {0, 1}, scratch / "moved", with_threads(2)),
      doctest::Contains("noise.bin"), Error);
  CHECK(file_contents(part) == damaged);
}

TEST_CASE("parts hold as much as fits, and all have the same amount of content") {
  CHECK(part_content_for(16'000'000'000, 16 * kMiB) > 16'000'000'000 * 0.999);
  for (const std::uint64_t part : {std::uint64_t{65'553}, std::uint64_t{150'000}, std::uint64_t{1'000'000}}) {
    const FrameGrid grid{10'000'000, 65'536, part_content_for(part, 65'536)};
    std::uint64_t end = 0;
    for (std::size_t f = 0; f < grid.frames(); ++f) {
      CHECK(grid.begin(f) == end);
      CHECK(grid.frame_at(end) == f);
      CHECK(grid.frame_at(grid.end(f) - 1) == f);
      end = grid.end(f);
    }
    CHECK(end == grid.stream_size);
    CHECK(grid.parts() == (grid.frames() + grid.frames_in_part() - 1) / grid.frames_in_part());
  }
  const Scratch scratch;
  put_file(scratch / "f", chunks_tree::noise(3'000'000, 1));
  auto options = small_parts(scratch / "f", scratch / "out");
  options.part_size = 1'000'000;
  for (const int level : {0, 1, 19}) {
    options.level = level;
    options.force = true;
    for (const FileEntry& part : chunks_tree::pack(options, with_threads(2)).manifest.parts) {
      CHECK(part.size <= options.part_size);
      if (!part.path.ends_with("003")) CHECK(part.size > options.part_size * 0.98);
    }
  }
}

TEST_CASE("a run continues although the files have other inodes and times") {
  const Scratch scratch;
  make_tree(scratch / "tree");
  const auto options = small_parts(scratch / "tree", scratch / "out");
  struct Listener : Progress {
    std::string said;
    void begin(std::string_view, std::uint64_t) override {}
    void advance(std::uint64_t) override {}
    void end() override {}
    void say(std::string_view line) override { said += std::string(line) + "\n"; }
  };
  for (const bool change : {false, true}) {
    CAPTURE(change);
    std::filesystem::remove_all(scratch / "out");
    Stop stop;
    StopAfter progress(stop, 400'000);
    CHECK_THROWS_AS(chunks_tree::pack(options, Context{.progress = progress, .stop = &stop}), Error);
    std::filesystem::rename(scratch / "tree", scratch / "old");
    std::filesystem::copy(
        scratch / "old", scratch / "tree",
        std::filesystem::copy_options::recursive | std::filesystem::copy_options::copy_symlinks);
    std::filesystem::remove(scratch / "tree/sub/other-name");
    std::filesystem::create_hard_link(scratch / "tree/noise.bin", scratch / "tree/sub/other-name");
    std::filesystem::remove_all(scratch / "old");
    if (change) put_file(scratch / "tree/noise.bin", chunks_tree::noise(150'000, 9));
    Listener listener;
    const std::size_t kept = chunks_tree::pack(options, Context{.progress = listener}).parts_kept;
    CHECK((kept > 0 || change));
    CHECK(listener.said.find("have other inodes or times") != std::string::npos);
    CHECK((listener.said.find("are made again") != std::string::npos) == change);
    auto undisturbed = options;
    undisturbed.out = scratch / "whole";
    undisturbed.force = true;
    chunks_tree::pack(undisturbed, Context{});
    CHECK(contents(scratch / "out") == contents(scratch / "whole"));
  }
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
