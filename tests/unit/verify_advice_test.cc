// The advice of a verification: it names the layers, and its commands can be pasted.
#include <doctest/doctest.h>

#include <filesystem>

#include "unit/verify_fixture.h"
#include "verify/verify_files.h"

using namespace planesmith;

namespace {

std::string advice_text(const VerifyFixture& fixture, const Manifest& manifest, const Verification& result) {
  std::string out;
  for (const std::string& line : advice(manifest, result, fixture.options)) out += line + "\n";
  return out;
}

}  // namespace

TEST_CASE("a damaged pack is rebuilt by the layers that are damaged, a stray byte by a hole") {
  VerifyFixture fixture;
  const Manifest manifest = put_pack(fixture.root, "it's");
  const std::string pack = fixture.at(manifest.files[0].path), real = real_path(fixture.root);
  const std::uint64_t row = 4096, key2 = 2 * 3 * row;
  const auto advised = [&] { return advice_text(fixture, manifest, fixture.verify(manifest)); };
  const std::string command =
      "build-fp4-packs CHECKPOINT --out " + real +
      " --tiers base --ckpt-id 'it'\\''s' --world 1 --rank 0 --zero-mode alt --layers ";
  SUBCASE("one layer") {
    // Two of three layers are filled: keys 0 and 2 are the layers 1 and 3.
    flip(pack, key2 + row + 100);
    CHECK(advised() == "copy or download what differs again, or build it again: " + command + "3 --force\n");
  }
  SUBCASE("both layers") {
    flip(pack, 0);
    flip(pack, key2);
    CHECK(contains(advised(), command + "1,3 --force\n"));
  }
  SUBCASE("all of it") {
    std::filesystem::resize_file(pack, row);
    CHECK(contains(advised(), command + "1,3 --force\n"));
  }
  SUBCASE("padding") {
    flip(pack, 3456 + 10);
    CHECK(advised() == "zero these bytes: fallocate --punch-hole --offset 3466 --length 630 " + pack + "\n");
  }
  SUBCASE("the sidecar alone") {
    std::filesystem::remove(fixture.at(derived_files(manifest)[0].path));
    CHECK(contains(advised(), "write it again: printf %s '{\"E\": 3, \"ckpt_id\": \"it'\\''s\", "));
    CHECK_FALSE(contains(advised(), "build"));
  }
}

TEST_CASE("the advice rebuilds a damaged cache in place") {
  VerifyFixture fixture;
  const std::string directory = format::cache_directory({"id", 1, 0, format::ZeroMode::alt, false});
  fixture.options.root = fixture.at(directory);
  const Manifest manifest = put_cache(fixture.at(directory), "id");
  const auto advised = [&] { return advice_text(fixture, manifest, fixture.verify(manifest)); };
  SUBCASE("a part") {
    std::filesystem::remove(fixture.at(directory + "/layer2.sc2.bin"));
    CHECK(advised() ==
          "copy or download what differs again, or build it again: build-planescache CHECKPOINT --out " +
              real_path(fixture.root) +
              " --fp4 nibble --ckpt-id id --world 1 --rank 0 --zero-mode alt --layers 2 --force\n");
  }
  SUBCASE("meta.json alone") {
    put_file(fixture.at(directory + "/meta.json"), "{}");
    CHECK(advised().starts_with("write it again: printf %s '{\"version\": 2, "));
    CHECK_FALSE(contains(advised(), "build"));
  }
}

TEST_CASE("links of a Hugging Face cache in place of files") {
  VerifyFixture fixture;
  put_file(fixture.at("a"), "a");
  const Manifest manifest = tree_of(fixture);
  const std::string snapshot = fixture.scratch / "models--x--y/snapshots/0123",
                    blobs = fixture.scratch / "models--x--y/blobs";
  std::filesystem::create_directories(snapshot);
  std::filesystem::create_directories(blobs);
  put_file(blobs + "/ab", "a");
  std::filesystem::create_symlink("../../blobs/ab", snapshot + "/a");
  fixture.options.root = snapshot;
  const Verification result = fixture.verify(manifest);
  CHECK(told(result) == "link a: is a link to ../../blobs/ab, a file was expected; links are not followed\n");
  CHECK(contains(advice_text(fixture, manifest, result), "cp -rlL " + real_path(snapshot) + " DIR"));

  // A manifest of the snapshot itself says nothing about the files' contents, and a note says so.
  const Manifest links = make_manifest(fixture.context, {snapshot}, fixture.scratch / "m.json", {}).manifest;
  fixture.options.root = fixture.scratch.path();
  const Verification same = fixture.verify(links);
  CHECK(same.ok());
  REQUIRE(same.notes.size() == 1);
  CHECK(contains(same.notes[0],
                 "a link; it is the same, but what it leads to is not in the manifest and was not read"));
  Verification listing;
  listing.differences = compare_with_listing(fixture.context, links, {}, fixture.options);
  CHECK(
      contains(told(listing), "is recorded as a link to ../../blobs/ab, which says nothing of its content"));
}
