// Contents, presence, kinds, sizes, links and extra files against a manifest.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <filesystem>

#include "base/error.h"
#include "unit/verify_fixture.h"
#include "verify/verify_files.h"

using namespace planesmith;

TEST_CASE("files that match their manifest verify, and nothing is written") {
  for (const int kind : {0, 1, 2}) {
    VerifyFixture fixture;
    if (kind == 2) put_file(fixture.at("a"), "a");
    const Manifest manifest = kind == 0   ? put_cache(fixture.root, "id")
                              : kind == 1 ? put_pack(fixture.root, "id")
                                          : tree_of(fixture);
    const std::string before = snapshot(fixture.root);
    for (const bool quick : {true, false}) {
      for (const int threads : {1, 3}) {
        fixture.options.quick = quick;
        fixture.context.threads = threads;
        const Verification result = fixture.verify(manifest);
        CHECK(told(result) == "");
        CHECK((result.bytes != 0) == !quick);
      }
    }
    fixture.options.hashes = Hashes{.xxh3 = true, .sha256 = true};
    fixture.options.quick = false;
    CHECK(told(fixture.verify(manifest)) == "");
    CHECK(snapshot(fixture.root) == before);
  }
}

TEST_CASE("a flipped bit is blamed on the expert") {
  VerifyFixture fixture;
  const Manifest manifest = put_cache(fixture.root, "id");
  flip(fixture.at("layer2.fp13.bin"), 4096 + 5);
  Verification result = fixture.verify(manifest);
  CHECK(told(result) == "content layer2.fp13.bin: expert 1 (bytes 4096-8191) differs\n");
  CHECK(result.differences[0].blocks == std::vector<std::size_t>{1});
  CHECK(contains(
      advice(manifest, result, fixture.options).at(0),
      "build-planescache CHECKPOINT --out ROOT --fp4 nibble --ckpt-id id --world 1 --rank 0 --zero-mode alt "
      "--layers 2 --force"));
  flip(fixture.at("layer2.fp13.bin"), 0);
  CHECK(contains(told(fixture.verify(manifest)), "expert 0 to expert 1 (bytes 0-8191) differ\n"));
  flip(fixture.at("layer2.fp13.bin"), 3 * 4096 - 1);
  CHECK(contains(told(fixture.verify(manifest)), "all 3 blocks differ\n"));
  fixture.options.quick = true;
  CHECK(fixture.verify(manifest).ok());
}

TEST_CASE("every byte of a pack counts, padding and holes too") {
  VerifyFixture fixture;
  const Manifest manifest = put_pack(fixture.root, "id");
  const std::string pack = fixture.at(manifest.files[0].path);
  const std::uint64_t row = 4096, key2 = 2 * 3 * row;
  const std::pair<std::uint64_t, const char*> places[] = {
      {2048 + 3, "layer key 0, expert 0, sc13 (bytes 2048-2303) differs"},
      {key2 + row + 100, "layer key 2, expert 1, planes13"},
      {3456, "byte 3456 lies outside the rows that are filled"},  // padding inside a unit
      {3 * row - 1, "byte 12287 lies outside"},                   // padding at its end
      {4 * row + 17, "byte 16401 lies outside"},                  // a layer that is not listed
      {12 * row - 1, "byte 49151 lies outside"},                  // the last byte
  };
  for (const auto& [offset, what] : places) {
    const auto& this_offset = offset;  // clang 14 cannot capture structured bindings
    CAPTURE(this_offset);
    flip(pack, offset);
    for (const bool both : {false, true}) {
      fixture.options.hashes = Hashes{.xxh3 = true, .sha256 = both};
      CHECK(contains(told(fixture.verify(manifest)), what));
      CHECK(contains(told(fixture.verify(manifest)), "SHA-256 is") == both);
    }
    flip(pack, offset);
  }
  CHECK(fixture.verify(manifest).ok());
}

TEST_CASE("long holes of a pack are checked, whether or not the file system reports holes") {
  // Rows of 13.5 MiB: one expert, of which layer key 1 of 0..2 is filled.
  VerifyFixture fixture;
  Manifest manifest{.kind = ManifestKind::pack, .tool = "test", .facts = small_facts("id")};
  CacheFacts& facts = *manifest.facts;
  facts.geometry = {2, 1, 4096, 4096};
  facts.tier = format::Tier::base;
  facts.layers = {1};
  const format::RankShape shape = format::rank_shape(facts.geometry, 1);
  const format::PackSpec spec =
      format::pack_spec(format::Tier::base, facts.geometry, shape, "id", facts.zero_mode);
  REQUIRE(spec.stride > 8 * kMiB);
  const std::string slot = some_bytes(spec.slot_bytes, 5), path = format::pack_stem(spec, 0, 1) + ".pack";
  {
    File file = File::create(posix(), fixture.at(path));
    file.truncate(spec.file_bytes());
    file.write(bytes_of(slot), spec.row_offset(1, 0));
  }
  manifest.files = {{.path = path, .size = spec.file_bytes()}};
  FileEntry& entry = manifest.files[0];
  for (const BlockRange& range : block_ranges(manifest, entry))
    entry.blocks.push_back(
        Xxh3::of(bytes_of(slot).subspan(range.offset - spec.row_offset(1, 0), range.size)));
  entry.xxh3 = combine(entry.blocks);
  put_file(fixture.at(derived_files(manifest)[0].path), derived_files(manifest)[0].content);
  CHECK(told(fixture.verify(manifest)) == "");
  for (const std::uint64_t offset : {spec.stride - 3, spec.file_bytes() - spec.stride / 2}) {
    flip(fixture.at(path), offset);
    CHECK(contains(told(fixture.verify(manifest)), fmt::format("byte {} lies outside", offset)));
    flip(fixture.at(path), offset);
  }
}

TEST_CASE("presence, kinds, sizes, links") {
  VerifyFixture fixture;
  std::filesystem::create_directories(fixture.at("d/e"));
  for (const char* path : {"file", "gone", "short", "long", "directory", "d/e/f", "linked"})
    put_file(fixture.at(path), "text");
  std::filesystem::create_symlink("file", fixture.at("link"));
  std::filesystem::create_symlink("/etc/passwd", fixture.at("out"));
  std::filesystem::create_symlink("nowhere", fixture.at("dangling"));
  const Manifest manifest = tree_of(fixture);
  CHECK(told(fixture.verify(manifest)) == "");

  std::filesystem::remove(fixture.at("gone"));
  put_file(fixture.at("short"), "tex");
  put_file(fixture.at("long"), "text!");
  std::filesystem::remove(fixture.at("directory"));
  std::filesystem::create_directories(fixture.at("directory"));
  std::filesystem::rename(fixture.at("d/e"), fixture.at("d/real"));
  std::filesystem::create_symlink("real", fixture.at("d/e"));
  std::filesystem::remove(fixture.at("linked"));
  std::filesystem::create_symlink("file", fixture.at("linked"));
  std::filesystem::remove(fixture.at("link"));
  std::filesystem::create_symlink("short", fixture.at("link"));
  std::filesystem::remove(fixture.at("out"));
  put_file(fixture.at("out"), "text");
  fixture.options.quick = true;
  CHECK(told(fixture.verify(manifest)) ==
        "extra d/e: is not in the manifest\n"
        "link d/e/f: is below the link d/e, which is not followed\n"
        "extra d/real/f: is not in the manifest\n"
        "kind directory: is a directory, a file was expected\n"
        "missing gone: a file was expected\n"
        "link link: leads to short, file was expected\n"
        "link linked: is a link to file, a file was expected; links are not followed\n"
        "size long: has 5 bytes, 4 were expected\n"
        "kind out: is a file, a link was expected\n"
        "size short: has 3 bytes, 4 were expected\n");
  fixture.options.root = fixture.at("nowhere");
  CHECK_THROWS_AS(fixture.verify(manifest), Error);
}

TEST_CASE("extra files are those below what the manifest covers") {
  VerifyFixture fixture;
  std::filesystem::create_directories(fixture.at("in/sub"));
  put_file(fixture.at("in/a"), "a");
  put_file(fixture.at("beside"), "b");
  const Manifest manifest = make_manifest(fixture.context, {fixture.at("in")}, fixture.at("m.json"),
                                          {.xxh3 = true, .sha256 = false})
                                .manifest;
  CHECK(manifest.covers == std::vector<std::string>{"in"});
  CHECK(fixture.verify(manifest).ok());
  put_file(fixture.at("in/sub/b"), "b");
  std::filesystem::create_symlink("/", fixture.at("in/sub/l"));
  CHECK(told(fixture.verify(manifest)) ==
        "extra in/sub/b: is not in the manifest\nextra in/sub/l: is not in the manifest\n");
  fixture.options.allow_extra = true;
  CHECK(fixture.verify(manifest).ok());

  // A manifest in its own tree, and what hf notes for itself, are no extras.
  fixture.options.allow_extra = false;
  const Manifest all = tree_of(fixture);
  put_file(fixture.at("m.json"), to_json(all));
  fixture.options.manifest_path = fixture.at("m.json");
  std::filesystem::create_directories(fixture.at(".cache/huggingface/download"));
  put_file(fixture.at(".cache/huggingface/download/a.metadata"), "");
  CHECK(fixture.verify(all).ok());
  CHECK(to_json(tree_of(fixture)) == to_json(all));
  put_file(fixture.at(".cache/other"), "");
  CHECK(told(fixture.verify(all)) == "extra .cache/other: is not in the manifest\n");

  VerifyFixture other;
  const Manifest cache = put_cache(other.root, "id");
  put_file(other.at("layer1.fp13.bin.tmp"), "");
  CHECK(told(other.verify(cache)) == "extra layer1.fp13.bin.tmp: is not in the manifest\n");
}

TEST_CASE("meta.json and sidecars are compared to the last byte") {
  VerifyFixture fixture;
  const Manifest manifest = put_cache(fixture.root, "id");
  const std::string meta = file_contents(fixture.at("meta.json"));
  put_file(fixture.at("meta.json"), meta + "\n");
  CHECK(contains(told(fixture.verify(manifest)), "content meta.json: is {\"version\": 2"));
  std::filesystem::remove(fixture.at("meta.json"));
  CHECK(told(fixture.verify(manifest)) == "missing meta.json: a file was expected\n");

  VerifyFixture store;
  const Manifest pack = put_pack(store.root, "id");
  const std::string sidecar = derived_files(pack)[0].path;
  put_file(store.at(sidecar),
           format::sidecar_json(format::parse_sidecar(file_contents(store.at(sidecar)), "s").spec, {0}));
  CHECK(contains(told(store.verify(pack)), "\"layers\": [0]"));
}

TEST_CASE("the same data under another identity are distinguished from damage") {
  VerifyFixture fixture;
  const Manifest published = put_cache(fixture.scratch / "published", "id A");
  put_cache(fixture.root, "id B");
  Verification result = fixture.verify(published);
  CHECK(told(result) == "identity meta.json: is of identity 'id B', the manifest of 'id A'\n");
  CHECK(contains(advice(published, result, fixture.options).at(0), "rekey --from 'id B' --to 'id A'"));
  flip(fixture.at("layer1.sc2.bin"), 0);
  CHECK(contains(told(fixture.verify(published)), "content layer1.sc2.bin: expert 0"));

  VerifyFixture store;
  const Manifest pack = put_pack(store.scratch / "published", "id A");
  const Manifest local = put_pack(store.root, "id B");
  result = store.verify(pack);
  CHECK(result.differences.size() == 1);
  CHECK(result.found_identity == "id B");
  CHECK(contains(told(result), "is of identity 'id B', the manifest of 'id A'"));
  CHECK(result.bytes == local.files[0].size);
  flip(store.at(local.files[0].path), 1);
  CHECK(contains(told(store.verify(pack)), "layer key 0, expert 0, planes13"));
  std::filesystem::remove(store.at(local.files[0].path.substr(0, local.files[0].path.size() - 5) + ".json"));
  CHECK(contains(told(store.verify(pack)), "missing " + pack.files[0].path));
}
