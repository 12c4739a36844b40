#include "manifest/manifest.h"

#include <doctest/doctest.h>

#include <functional>

#include "base/error.h"
#include "base/file.h"
#include "manifest/tree.h"

using namespace planesmith;

namespace {

FileEntry file_of(const std::string& path, std::uint64_t size, std::size_t blocks) {
  FileEntry file{.path = path, .size = size};
  for (std::size_t i = 0; i < blocks; ++i)
    file.blocks.push_back(Xxh3::of(bytes_of(path + std::to_string(i))));
  file.xxh3 = combine(file.blocks);
  file.sha256 = sha256_hex(path);
  return file;
}

// Two layers of three experts, H = 64, I = 64: sections of 2048, 256, 1024, 128, 4096 and 2048 bytes.
Manifest small_cache() {
  Manifest manifest{.kind = ManifestKind::planescache, .tool = "planesmith test"};
  manifest.facts = CacheFacts{.ckpt_id = "modèle \"1\"",
                              .world = 1,
                              .rank = 0,
                              .zero_mode = format::ZeroMode::alt,
                              .geometry = {3, 3, 64, 64},
                              .layers = {1, 2},
                              .fp4 = format::Fp4Tier::nibble};
  const format::RankShape shape = format::rank_shape(manifest.facts->geometry, 1);
  for (const std::uint64_t layer : {1, 2}) {
    for (const char* part : {"fp13", "fp2", "planes13", "planes2", "sc13", "sc2"})
      for (const format::Part& known : format::cache_parts(format::Fp4Tier::nibble))
        if (known.name == part)
          manifest.files.push_back(
              file_of(format::part_file(layer, part), 3 * format::section_bytes(known.section, shape), 3));
  }
  return manifest;
}

// The same model's base pack, rows of layer keys 0 and 1 filled.
Manifest small_pack() {
  Manifest manifest = small_cache();
  manifest.kind = ManifestKind::pack;
  manifest.facts->fp4.reset();
  manifest.facts->tier = format::Tier::base;
  manifest.facts->layers = {0, 2};
  const format::PackSpec spec = format::pack_spec(format::Tier::base, manifest.facts->geometry,
                                                  format::rank_shape(manifest.facts->geometry, 1),
                                                  manifest.facts->ckpt_id, format::ZeroMode::alt);
  manifest.files = {file_of(format::pack_stem(spec, 0, 1) + ".pack", spec.file_bytes(), 2 * 3 * 4)};
  return manifest;
}

Manifest small_tree() {
  Manifest manifest{.kind = ManifestKind::tree, .tool = "planesmith test"};
  manifest.files = {file_of("a/b c", kTreeBlock + 1, 2), file_of("empty", 0, 0),
                    FileEntry{.path = "link", .link_target = "../elsewhere"}};
  manifest.covers = {"."};
  return manifest;
}

Manifest parsed(Json document) {
  document.erase("digest");  // of the text before it was changed
  return parse_manifest(pretty(document), "m.json");
}

// Refused, with `reason` among the words, after `change` to an otherwise good manifest.
void refused(const Manifest& good, const char* reason, const std::function<void(Json&)>& change) {
  Json document = Json::parse(to_json(good));
  CHECK_NOTHROW(parsed(document));
  change(document);
  try {
    parsed(document);
    FAIL_CHECK("accepted, though " << reason);
  } catch (const Error& error) {
    INFO(error.what());
    CHECK(error.code() == ErrorCode::failed);
    CHECK(error.path() == "m.json");
    CHECK(error.reason().find(reason) != std::string::npos);
  }
}

}  // namespace

TEST_CASE("manifests survive writing and reading, and are the same bytes each time") {
  for (const Manifest& manifest : {small_cache(), small_pack(), small_tree()}) {
    const std::string text = to_json(manifest);
    CHECK(to_json(parse_manifest(text, "m.json")) == text);
  }
  Manifest chunks{
      .kind = ManifestKind::chunks, .tool = "t", .files = {file_of("x.000", 5, 1)}, .chunks = Json::object()};
  chunks.chunks["name"] = "x";
  CHECK(to_json(parse_manifest(to_json(chunks), "m.json")) == to_json(chunks));
}

// XXH3-128 of a manifest's text before the comma in front of its own digest.
std::string digest_of(const std::string& text) {
  return Xxh3::of(bytes_of(text.substr(0, text.rfind(",\n \"digest\"")))).hex();
}

TEST_CASE("a manifest that was changed does not blame the files") {
  const std::string text = to_json(small_cache());
  CHECK_NOTHROW(parse_manifest(text, "m.json"));
  std::string changed = text;
  changed.replace(changed.find("planesmith test"), 10, "Planesmith");
  CHECK_THROWS_WITH_AS(parse_manifest(changed, "m.json"),
                       doctest::Contains("was changed after it was written"), Error);
  for (const std::string& more : {std::string("\n"), std::string(" ")})
    CHECK_THROWS_AS(parse_manifest(text + more, "m.json"), Error);
}

TEST_CASE("data are trusted by digests only: a cache's manifest without them is refused") {
  for (const Manifest& whole : {small_cache(), small_pack()})
    for (const char* key : {"xxh3", "blocks"}) {
      Json document = Json::parse(to_json(whole));
      document["files"][0].erase(key);
      CHECK_THROWS_AS(parsed(document), Error);
      document["files"][0].erase("xxh3");
      document["files"][0].erase("blocks");
      CHECK_THROWS_AS(parsed(document), Error);
    }
}

TEST_CASE("a tree's manifest, byte for byte") {
  Manifest manifest{.kind = ManifestKind::tree, .tool = "planesmith 0"};
  FileEntry file{.path = "é", .size = 3};
  file.blocks = {Xxh3::of(bytes_of("abc"))};
  file.xxh3 = combine(file.blocks);
  manifest.files = {file, FileEntry{.path = "l", .link_target = "é"}};
  manifest.covers = {"."};
  CHECK(to_json(manifest) == R"({
 "version": 1,
 "kind": "tree",
 "tool": "planesmith 0",
 "covers": ["."],
 "files": [
  {"path": "\u00e9", "size": 3, "xxh3": ")" +
                                 file.xxh3->hex() + R"(", "blocks": ["06b05ab6733a618578af5f94892f3950"]},
  {"path": "l", "link": "\u00e9"}
 ],
 "digest": ")" + digest_of(to_json(manifest)) +
                                 R"("
}
)");
  manifest.files.clear();
  CHECK(to_json(manifest).find("\"files\": [],\n \"digest\": \"") != std::string::npos);
  CHECK_NOTHROW(parse_manifest(to_json(manifest), "m.json"));
}

TEST_CASE("block digests cover what the kind says") {
  const Manifest cache = small_cache();
  const FileEntry& planes13 = cache.files[2];
  REQUIRE(planes13.path == "layer1.planes13.bin");
  const auto parts = block_ranges(cache, planes13);
  REQUIRE(parts.size() == 3);
  CHECK(parts[2].offset == 2 * 2048);
  CHECK(parts[2].size == 2048);
  CHECK(block_name(cache, planes13, 2) == "expert 2");

  const Manifest pack = small_pack();
  const auto rows = block_ranges(pack, pack.files[0]);
  REQUIRE(rows.size() == 24);
  CHECK(rows[3].offset == 2048 + 256 + 1024);  // sc2 of (0, 0)
  CHECK(rows[3].size == 128);
  CHECK(rows[4].offset == 4096);                 // the next row, past the padding
  CHECK(rows[12].offset == (2 * 3 + 0) * 4096);  // layer key 1 is not listed
  CHECK(block_name(pack, pack.files[0], 12 + 4 + 1) == "layer key 2, expert 1, sc13");

  const Manifest tree = small_tree();
  const auto blocks = block_ranges(tree, tree.files[0]);
  REQUIRE(blocks.size() == 2);
  CHECK(blocks[1].offset == kTreeBlock);
  CHECK(blocks[1].size == 1);
  CHECK(block_ranges(tree, tree.files[1]).empty());
}

TEST_CASE("only named fields depend on the identity") {
  Manifest one = small_cache(), other = one;
  other.facts->ckpt_id = "another";
  Json a = Json::parse(to_json(one)), b = Json::parse(to_json(other));
  CHECK(a != b);
  for (const char* key : {"ckpt_id", "digest"}) {
    a.erase(key);
    b.erase(key);
  }
  CHECK(a == b);
  CHECK(derived_files(one).at(0).path == "meta.json");
  CHECK(derived_files(one)[0].content ==
        format::meta_json({"modèle \"1\"", 1, 0, format::ZeroMode::alt, false}));
  const Manifest pack = small_pack();
  const DerivedFile sidecar = derived_files(pack).at(0);
  CHECK(sidecar.path == pack.files[0].path.substr(0, pack.files[0].path.size() - 5) + ".json");
  CHECK(format::parse_sidecar(sidecar.content, "s").layer_keys == pack.facts->layers);
  CHECK(derived_files(small_tree()).empty());
}

TEST_CASE("hostile manifests are refused") {
  const Manifest tree = small_tree(), cache = small_cache(), pack = small_pack();
  for (const char* path : {"/etc/passwd", "../x", "a/../../x", "", ".", "a//b", "a/", "./a"})
    refused(tree, "not a path below", [&](Json& m) { m["files"][0]["path"] = path; });
  refused(tree, "not a path below", [](Json& m) { m["files"][0]["path"] = std::string("a\0b", 3); });
  refused(tree, "twice", [](Json& m) { m["files"][0]["path"] = "empty"; });
  refused(tree, "\"covers\"", [](Json& m) { m["covers"] = {"../other"}; });
  refused(tree, "\"covers\"", [](Json& m) { m["covers"] = {3}; });
  refused(tree, "link target", [](Json& m) { m["files"][2]["link"] = ""; });
  refused(tree, "unknown key", [](Json& m) { m["files"][2]["size"] = 1; });
  refused(tree, "unknown key", [](Json& m) { m["files"][1]["mode"] = 1; });
  refused(tree, "unknown key", [](Json& m) { m["surprise"] = 1; });
  refused(tree, "has no \"size\"", [](Json& m) { m["files"][1].erase("size"); });
  refused(tree, "\"size\"", [](Json& m) { m["files"][1]["size"] = -1; });
  refused(tree, "\"size\"", [](Json& m) { m["files"][1]["size"] = 1.5; });
  refused(tree, "\"size\"", [](Json& m) { m["files"][1]["size"] = ~std::uint64_t{0}; });
  refused(tree, "block digests", [](Json& m) { m["files"][0]["size"] = kTreeBlock; });
  refused(tree, "block digests give", [](Json& m) { m["files"][0]["blocks"].erase(1); });
  refused(tree, "digest 0 of \"blocks\"", [](Json& m) { m["files"][0]["blocks"][0] = "00"; });
  refused(tree, "has no \"blocks\"", [](Json& m) { m["files"][0].erase("blocks"); });
  refused(tree, "has no \"xxh3\"", [](Json& m) { m["files"][0].erase("xxh3"); });
  refused(tree, "\"sha256\"", [](Json& m) { m["files"][0]["sha256"] = std::string(64, 'A'); });
  refused(tree, "is not a list", [](Json& m) { m["files"] = Json::object(); });
  refused(tree, "is not an object", [](Json& m) { m["files"][0] = 7; });
  refused(tree, "\"version\"", [](Json& m) { m["version"] = 2; });
  refused(tree, "'other'", [](Json& m) { m["kind"] = "other"; });
  refused(tree, "has no \"ckpt_id\"", [](Json& m) { m["kind"] = "planescache"; });

  refused(cache, "is not part of", [](Json& m) { m["files"][0]["path"] = "evil.bin"; });
  refused(cache, "does not list 'layer2.sc2.bin'", [](Json& m) { m["files"].erase(11); });
  refused(cache, "does not list 'layer1.fp13.bin'", [](Json& m) { m["files"].erase(0); });
  refused(cache, "geometry makes that", [](Json& m) { m["files"][0]["size"] = 1; });
  refused(cache, "block digests; its geometry", [](Json& m) {
    m["files"][0]["blocks"] = Json::array();
    m["files"][0]["xxh3"] = combine({}).hex();
  });
  refused(cache, "as a link", [](Json& m) { m["files"][0] = {{"path", "layer1.fp13.bin"}, {"link", "x"}}; });
  refused(cache, "\"layers\"", [](Json& m) { m["layers"] = {2, 1}; });
  refused(cache, "\"layers\"", [](Json& m) { m["layers"] = {1, 3 + format::kMostDrafts}; });
  refused(cache, "does not list 'layer3.", [](Json& m) { m["layers"] = {1, 2, 3}; });  // a drafter's
  refused(cache, "\"rank\"", [](Json& m) { m["rank"] = 1; });
  refused(cache, "\"world\"", [](Json& m) { m["world"] = 0; });
  refused(cache, "ABI", [](Json& m) { m["quantizer_abi"] = "v3"; });
  refused(cache, "\"experts\"", [](Json& m) { m["geometry"]["experts"] = 0; });
  refused(cache, "impossible geometry", [](Json& m) { m["geometry"]["hidden"] = 65; });
  refused(cache, "unknown key", [](Json& m) { m["tier"] = "base"; });

  refused(pack, "is not part of", [](Json& m) { m["ckpt_id"] = "another"; });  // the name holds the key
  refused(pack, "block digests; its geometry", [](Json& m) { m["layers"] = {0}; });
  refused(pack, "impossible geometry", [](Json& m) {
    m["geometry"] = {{"layers", 65536}, {"experts", 65536}, {"hidden", 1 << 20}, {"intermediate", 1 << 20}};
  });
  CHECK_THROWS_AS(parse_manifest("{\"version\": 1", "m.json"), Error);
  CHECK_THROWS_AS(parse_manifest("[]", "m.json"), Error);
  CHECK_THROWS_AS(parse_manifest(std::string(100000, '['), "m.json"), Error);
}

TEST_CASE("what cannot be written as JSON is refused") {
  Manifest manifest = small_tree();
  manifest.files[0].path = std::string("\xff");
  CHECK_THROWS_AS(to_json(manifest), Error);
}

TEST_CASE("whether what a link leads to is in the manifest") {
  Manifest manifest;
  for (const char* path : {"a", "d-x", "d/e/f", "d/l"}) manifest.files.push_back({.path = path});
  const auto leads_in = [&](const char* path, const char* target) {
    return has_target(manifest, {.path = path, .link_target = target});
  };
  CHECK(leads_in("l", "a"));
  CHECK(leads_in("d/l", "../a"));
  CHECK(leads_in("d/l", "e"));
  CHECK(leads_in("d/l", "./e/../e/f"));
  CHECK(leads_in("l", "d"));
  CHECK_FALSE(leads_in("l", "b"));
  CHECK_FALSE(leads_in("l", "../a"));
  CHECK_FALSE(leads_in("l", "/a"));
  CHECK_FALSE(leads_in("d/l", "a"));
}
