// A set of parts is found, and every difference in it.
#include <doctest/doctest.h>

#include "base/error.h"
#include "chunks/verify_chunks.h"
#include "chunks_tree.h"

using namespace planesmith;
using namespace planesmith::chunks;

namespace {

constexpr const char* kPart1 = "set.tar.zst.part.001";

std::vector<Finding> verify(const std::string& dir, VerifyOptions options) {
  Context context;
  context.threads = 4;
  return verify_chunks(find_chunks_with_manifest(dir, "", context), options, context);
}

bool names(const std::vector<Finding>& findings, const std::string& part) {
  for (const Finding& finding : findings)
    if (finding.part == part) return true;
  return false;
}

void flip(const std::string& path, std::uint64_t at) {
  std::string content = file_contents(path);
  content.at(at) ^= 1;
  put_file(path, content);
}

const VerifyOptions kXxh3{}, kSha256{.xxh3 = false, .sha256 = true}, kBoth{.xxh3 = true, .sha256 = true},
    kDeep{.deep = true};

}  // namespace

TEST_CASE("a good set is good in every respect; each damage is found and named") {
  const Scratch scratch;
  chunks_tree::make_tree(scratch / "tree");
  for (const int level : {0, 1}) {
    CAPTURE(level);
    std::filesystem::remove_all(scratch / "out");
    auto options = chunks_tree::small_parts(scratch / "tree", scratch / "out");
    options.level = level;
    chunks_tree::pack(options, Context{});
    const std::string out = scratch / "out", part = out + "/" + kPart1;
    for (const VerifyOptions& how : {kXxh3, kSha256, kBoth, kDeep}) CHECK(verify(out, how).empty());
    const std::string good = file_contents(part);

    for (std::size_t at = 0; at < good.size(); at += good.size() / 11) {
      CAPTURE(at);
      flip(part, at);
      for (const VerifyOptions& how : {kXxh3, kSha256, kBoth, kDeep}) CHECK(names(verify(out, how), kPart1));
      put_file(part, good);
    }
    put_file(part, good.substr(0, good.size() - 1));
    CHECK(names(verify(out, kXxh3), kPart1));
    put_file(part, good + "x");
    CHECK(names(verify(out, kXxh3), kPart1));
    std::filesystem::remove(part);
    CHECK(names(verify(out, kDeep), kPart1));
    put_file(part, good);
    put_file(out + "/set.tar.zst.part.999", good);
    CHECK(names(verify(out, kXxh3), "set.tar.zst.part.999"));
    std::filesystem::remove(out + "/set.tar.zst.part.999");
    CHECK(verify(out, kDeep).empty());
  }
}

TEST_CASE("a deep verification compares the manifest's members with those in the tar") {
  const Scratch scratch;
  chunks_tree::make_tree(scratch / "tree");
  chunks_tree::pack(chunks_tree::small_parts(scratch / "tree", scratch / "out"), Context{});
  const std::string path = scratch / "out/manifest.set.json";
  const ChunkManifest good = read_chunk_manifest(Context{}, path);
  const auto found = [&](auto change) {
    ChunkManifest manifest = good;
    change(manifest);
    put_file(path, to_json(manifest));
    CHECK(verify(scratch / "out", kBoth).empty());
    const auto findings = verify(scratch / "out", kDeep);
    return findings.size() == 1 ? findings[0].member : "";
  };
  CHECK(found([](ChunkManifest& m) { m.layout.members()[1].path = "tree/another"; }) == "tree/another");
  CHECK(found([](ChunkManifest& m) { m.layout.members()[2].mode = 0777; }) == good.layout.members()[2].path);
  CHECK(found([](ChunkManifest& m) {
          for (Member& member : m.layout.members())
            if (member.path == "tree/sparse.bin") member.blocks[2] = member.blocks[0];
        }) == "tree/sparse.bin");
  CHECK(found([](ChunkManifest& m) {
          for (Member& member : m.layout.members())
            if (member.path == "tree/sub/link") member.target = "../text.txt";
        }) == "tree/sub/link");
}

TEST_CASE("a cap of memory too small for one frame is refused with the smallest that works") {
  const Scratch scratch;
  put_file(scratch / "f", chunks_tree::noise(6 * kMiB, 1));
  auto options = chunks_tree::small_parts(scratch / "f", scratch / "out");
  options.frame_size = 3 * kMiB;
  options.part_size = 4 * kMiB;
  chunks_tree::pack(options, Context{});
  const ChunkSet set = find_chunks_with_manifest(scratch / "out", "", Context{});
  const auto run = [&](const VerifyOptions& how, std::uint64_t memory) {
    return verify_chunks(set, how, Context{.threads = 4, .memory = memory}).empty();
  };
  const auto smallest = [&](const VerifyOptions& how, std::uint64_t memory) {
    try {
      run(how, memory);
    } catch (const Error& error) {
      CHECK(error.code() == ErrorCode::usage);
      const std::string what = error.what(), before = "the smallest that works is ";
      REQUIRE(what.find(before) != what.npos);
      return std::stoull(what.substr(what.find(before) + before.size()));
    }
    FAIL("was not refused");
    return 0ULL;
  };
  for (const std::uint64_t memory : {std::uint64_t{1}, 6 * kMiB}) {
    const std::uint64_t enough = smallest(kDeep, memory);
    CHECK(enough > 6 * kMiB);
    CHECK(enough < 6 * kMiB + 64 * kKiB);
    CHECK(smallest(kDeep, enough - 1) == enough);
    CHECK(run(kDeep, enough));
  }
  CHECK(run(kXxh3, smallest(kXxh3, 1)));
}

TEST_CASE("one digest replaces another that was not recorded") {
  const Scratch scratch;
  put_file(scratch / "f", chunks_tree::noise(100'000, 1));
  auto options = chunks_tree::small_parts(scratch / "f", scratch / "out");
  for (const bool xxh3 : {false, true}) {
    options.xxh3 = xxh3;
    options.sha256 = !xxh3;
    options.force = true;
    chunks_tree::pack(options, Context{});
    for (const VerifyOptions& how : {kXxh3, kSha256, kBoth}) CHECK(verify(scratch / "out", how).empty());
    flip(scratch / "out/set.tar.zst.part.000", 5000);
    for (const VerifyOptions& how : {kXxh3, kSha256, kBoth})
      CHECK(names(verify(scratch / "out", how), "set.tar.zst.part.000"));
  }
}

TEST_CASE("parts are put in order, and gaps are seen") {
  std::vector<std::string> paths{"d/x.part.10", "d/x.part.9", "e/x.part.011", "d/x.part.1"};
  sort_parts(paths);
  CHECK(paths == std::vector<std::string>{"d/x.part.1", "d/x.part.9", "d/x.part.10", "e/x.part.011"});
  paths = {"p/x.0b", "p/x.10", "p/x.0a", "p/x.09"};
  sort_parts(paths);
  CHECK(paths == std::vector<std::string>{"p/x.09", "p/x.0a", "p/x.0b", "p/x.10"});
  CHECK_NOTHROW(check_for_gaps({"x.0e", "x.0f", "x.10"}));
  CHECK_NOTHROW(check_for_gaps({"x.yy", "x.yz", "x.zaaa", "x.zaab"}));
  CHECK_NOTHROW(check_for_gaps({"x.88", "x.89", "x.9000", "x.9001"}));
  CHECK_THROWS_AS(check_for_gaps({"x.0e", "x.10"}), Error);
  CHECK_THROWS_AS(check_for_gaps({"x.yx", "x.zaaa"}), Error);
  paths = {"x.0g", "x.00"};
  CHECK_THROWS_AS(sort_parts(paths), Error);
  paths = {"x.zz", "x.ab", "x.aaa", "x.aa"};
  sort_parts(paths);
  CHECK(paths == std::vector<std::string>{"x.aa", "x.ab", "x.zz", "x.aaa"});

  const Context context;
  const auto files = [&](std::vector<std::string> names) {
    return find_chunks(names, "", "", context).parts;
  };
  const Scratch scratch;
  for (const char* name : {"s.aa", "s.ab", "s.ad", "s.000", "s.001", "s.003"}) put_file(scratch / name, "");
  CHECK(files({scratch / "s.ab", scratch / "s.aa"}) ==
        std::vector<std::string>{scratch / "s.aa", scratch / "s.ab"});
  CHECK_THROWS_AS(files({scratch / "s.ab", scratch / "s.ad"}), Error);
  CHECK_THROWS_AS(files({scratch / "s.003", scratch / "s.001"}), Error);
  CHECK_THROWS_AS(files({scratch / "s.000", scratch / "s.000"}), Error);
}

TEST_CASE("a part's name is distinguished from other files'") {
  const auto parsed = [](const char* file) {
    const auto part = parse_part_name(file);
    return part ? part->name + " " + part->suffix : "";
  };
  CHECK(parsed("a.tar.zst.part.007") == "a 007");
  CHECK(parsed("a.tar.zst.part.0a") == "a 0a");
  CHECK(parsed("a.tar.zst.part.aa") == "a aa");
  CHECK(parsed("a.tar.zst.part00") == "a 00");
  CHECK(parsed("a.tar.zst.partaa") == "a aa");
  CHECK(parsed("a.tar.zst.00") == "a 00");
  CHECK(parsed("a.tar.zst-ab") == "a ab");
  CHECK(parsed("a.tar.zst") == "a ");
  for (const char* other :
       {"a.tar.zst.part.000.tmp", "a.tar.zst.sha256", "a.tar.zst.asc", "a.tar.zst.part.000.aria2",
        "a.tar.zst.lock", "a.tar", ".tar.zst.part.000", "a.tar.zst.part."})
    CHECK(parsed(other) == "");
  CHECK_THROWS_AS(parse_part_name("a.tar.zst.part.0G"), Error);
  CHECK(set_of_manifest("manifest.a.json") == "a");
  CHECK(set_of_manifest("a.manifest.json") == "a");
  CHECK(set_of_manifest("manifest.json") == "");
}

TEST_CASE("one set in a directory is found by itself, several need a name") {
  const Scratch scratch;
  const Context context;
  std::filesystem::create_directories(scratch / "d");
  CHECK_THROWS_AS(find_chunks({scratch / "d"}, "", "", context), Error);
  for (const char* name :
       {"a.tar.zst.part.aa", "a.tar.zst.part.ab", "a.tar.zst.part.ac.tmp", "other", "p.manifest.json"})
    put_file(scratch / "d/" + std::string(name), "");
  CHECK(find_chunks({scratch / "d"}, "", "", context).parts.size() == 2);
  put_file(scratch / "d/b.tar.zst.part.000", "");
  try {
    find_chunks({scratch / "d"}, "", "", context);
    FAIL_CHECK("two sets are there");
  } catch (const Error& error) {
    CHECK(error.code() == ErrorCode::usage);
    CHECK(std::string(error.what()).find("a, b") != std::string::npos);
  }
  CHECK(find_chunks({scratch / "d"}, "b", "", context).parts.size() == 1);
  put_file(scratch / "d/b.tar.zst.part.aa", "");  // hexadecimal and a gap
  CHECK_THROWS_AS(find_chunks({scratch / "d"}, "b", "", context), Error);
  put_file(scratch / "d/c.tar.zst.part00", "");
  CHECK(find_chunks({scratch / "d"}, "c", "", context).parts.size() == 1);
  put_file(scratch / "d/c.tar.zst.part.00", "");
  CHECK_THROWS_WITH_AS(find_chunks({scratch / "d"}, "c", "", context),
                       doctest::Contains("two sets of this name"), Error);
  CHECK_THROWS_AS(find_chunks_with_manifest(scratch / "d", "b", context), Error);
}
