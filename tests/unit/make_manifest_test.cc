#include "manifest/make_manifest.h"

#include <doctest/doctest.h>
#include <sys/stat.h>

#include <filesystem>

#include "base/error.h"
#include "base/file.h"
#include "scratch.h"

using namespace planesmith;

TEST_CASE("digests at and around the block size, for any number of threads") {
  Scratch scratch;
  std::string content(2 * kTreeBlock + 1, 'a');
  for (std::size_t i = 0; i < content.size(); i += 4099) content[i] = static_cast<char>(i >> 12);
  const std::uint64_t sizes[] = {0, 1, kTreeBlock - 1, kTreeBlock, kTreeBlock + 1, 2 * kTreeBlock + 1};
  for (const std::uint64_t size : sizes)
    put_file(scratch / ("f" + std::to_string(size)), content.substr(0, size));
  std::string first;
  for (const int threads : {1, 2, 5}) {
    const Context context{.threads = threads};
    const Manifest manifest = make_manifest(context, {scratch.path()}, scratch / "m.json", {}).manifest;
    REQUIRE(manifest.files.size() == 6);
    for (const FileEntry& file : manifest.files) {
      const std::string text = content.substr(0, file.size);
      std::vector<Xxh3> blocks;
      for (std::size_t at = 0; at < text.size(); at += kTreeBlock)
        blocks.push_back(Xxh3::of(bytes_of(std::string_view(text).substr(at, kTreeBlock))));
      CHECK(file.blocks == blocks);
      CHECK(file.xxh3 == combine(blocks));
      CHECK(file.sha256 == sha256_hex(text));
    }
    const std::string json = to_json(manifest);
    if (first.empty()) first = json;
    CHECK(json == first);
    CHECK_NOTHROW(parse_manifest(json, "m.json"));
    // XXH3 alone cuts files; the digests are the same.
    const Manifest cut =
        make_manifest(context, {scratch.path()}, scratch / "m.json", {.xxh3 = true, .sha256 = false})
            .manifest;
    for (std::size_t i = 0; i < 6; ++i) CHECK(cut.files[i].blocks == manifest.files[i].blocks);
    CHECK(cut.files[5].sha256.empty());
  }
}

TEST_CASE("what paths are relative to") {
  Scratch scratch;
  std::filesystem::create_directories(scratch / "a/b");
  std::filesystem::create_directories(scratch / "other");
  put_file(scratch / "a/b/f", "f");
  put_file(scratch / "a/g", "g");
  const Context context;
  const auto paths = [&](std::vector<std::string> from, const std::string& out) {
    std::string joined;
    const TreeManifest made = make_manifest(context, from, out, {.xxh3 = true, .sha256 = false});
    for (const FileEntry& file : made.manifest.files) joined += file.path + " ";
    return joined + (made.root.empty() ? "" : "below " + name_of(made.root));
  };
  CHECK(paths({scratch / "a"}, scratch / "m.json") == "a/b/f a/g ");
  CHECK(paths({scratch / "a"}, scratch / "a/m.json") == "b/f g ");
  CHECK(paths({scratch / "a/g", scratch / "a/b", scratch / "a/b/f"}, scratch / "a/m.json") == "b/f g ");
  CHECK(paths({scratch / "a"}, scratch / "other/m.json") == "a/b/f a/g below " + name_of(scratch.path()));
  CHECK(paths({scratch / "a/b/../b/"}, scratch / "other/m.json") == "b/f below a");
  try {
    paths({scratch / "a/b", scratch / "a/g", scratch / "other"}, scratch / "a/b/m.json");
    FAIL_CHECK("accepted");
  } catch (const Error& error) {
    CHECK(error.code() == ErrorCode::usage);
  }
  put_file(scratch / "a/m.json", "an older manifest, which is not part of the new one");
  CHECK(paths({scratch / "a"}, scratch / "a/m.json") == "b/f g ");
}

TEST_CASE("links are recorded, never followed; what is not a file is refused") {
  Scratch scratch;
  put_file(scratch / "f", "f");
  std::filesystem::create_symlink("/", scratch / "root");
  std::filesystem::create_symlink("gone", scratch / "dangling");
  const Context context;
  const auto make = [&] { return make_manifest(context, {scratch.path()}, scratch / "m.json", {}).manifest; };
  const Manifest manifest = make();
  REQUIRE(manifest.files.size() == 3);
  CHECK(manifest.files[0].link_target == "gone");
  CHECK(manifest.files[2].link_target == "/");
  REQUIRE(mkfifo((scratch / "pipe").c_str(), 0600) == 0);
  CHECK_THROWS_AS(make(), Error);
  std::filesystem::remove(scratch / "pipe");
  put_file(scratch / "\xff", "");
  CHECK_THROWS_AS(make(), Error);
  CHECK_THROWS_AS(make_manifest(context, {scratch / "nowhere"}, scratch / "m.json", {}), Error);
}
