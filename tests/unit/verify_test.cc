#include <doctest/doctest.h>
#include <errno.h>
#include <fmt/format.h>
#include <unistd.h>

#include <filesystem>

#include "base/error.h"
#include "base/user_cache.h"
#include "fault/fault_os.h"
#include "manifest/foreign.h"
#include "unit/verify_fixture.h"
#include "verify/verify_files.h"

using namespace planesmith;
using Kind = Difference::Kind;

namespace {

// The user's cache, where interrupted verifications leave their notes, is the test's own.
struct Fixture {
  Scratch scratch;
  std::string root = scratch / "root", notes = scratch / "notes";
  Context context;
  VerifyOptions options{.root = root};

  Fixture() {
    setenv("XDG_CACHE_HOME", notes.c_str(), 1);
    std::filesystem::create_directories(root);
  }
  ~Fixture() { unsetenv("XDG_CACHE_HOME"); }

  Verification verify(const Manifest& manifest) {
    return verify_files(context, manifest, to_json(manifest), options);
  }
  std::string at(const std::string& path) const { return join(root, path); }
};

// "kind path: what", one a line.
std::string told(const Verification& result) {
  std::string out;
  for (const Difference& d : result.differences)
    out += fmt::format("{} {}: {}\n", name(d.kind), d.path, d.what);
  return out;
}

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

Manifest tree_of(const Fixture& fixture, Hashes hashes = {}) {
  return make_manifest(fixture.context, {fixture.root}, fixture.at("m.json"), hashes).manifest;
}

// Asks to stop once so much was read.
class StopAfter : public Progress {
 public:
  StopAfter(std::uint64_t bytes, Stop& stop) : left_(static_cast<std::int64_t>(bytes)), stop_(stop) {}
  void begin(std::string_view, std::uint64_t) override {}
  void advance(std::uint64_t bytes) override {
    if ((left_ -= static_cast<std::int64_t>(bytes)) <= 0) stop_.request(2);
  }
  void end() override {}
  void say(std::string_view) override {}

 private:
  std::atomic<std::int64_t> left_;
  Stop& stop_;
};

}  // namespace

TEST_CASE("what a manifest says is found so, and nothing is written there") {
  for (const int kind : {0, 1, 2}) {
    Fixture fixture;
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
  Fixture fixture;
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
  Fixture fixture;
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
    const auto& this_offset = offset;  // clang 14 captures no structured bindings
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

TEST_CASE("long holes of a pack are looked at, whatever the file system knows of them") {
  // Rows of 13.5 MiB: one expert, of which layer key 1 of 0..2 is filled.
  Fixture fixture;
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
  Fixture fixture;
  std::filesystem::create_directories(fixture.at("d/e"));
  for (const char* path : {"file", "gone", "short", "long", "folder", "d/e/f", "linked"})
    put_file(fixture.at(path), "text");
  std::filesystem::create_symlink("file", fixture.at("link"));
  std::filesystem::create_symlink("/etc/passwd", fixture.at("out"));
  std::filesystem::create_symlink("nowhere", fixture.at("dangling"));
  const Manifest manifest = tree_of(fixture);
  CHECK(told(fixture.verify(manifest)) == "");

  std::filesystem::remove(fixture.at("gone"));
  put_file(fixture.at("short"), "tex");
  put_file(fixture.at("long"), "text!");
  std::filesystem::remove(fixture.at("folder"));
  std::filesystem::create_directories(fixture.at("folder"));
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
        "link d/e/f: lies behind the link d/e, which is not followed\n"
        "extra d/real/f: is not in the manifest\n"
        "kind folder: is a folder, a file was expected\n"
        "missing gone: a file was expected\n"
        "link link: leads to short, file was expected\n"
        "link linked: is a link to file, a file was expected\n"
        "size long: has 5 bytes, 4 were expected\n"
        "kind out: is a file, a link was expected\n"
        "size short: has 3 bytes, 4 were expected\n");
  fixture.options.root = fixture.at("nowhere");
  CHECK_THROWS_AS(fixture.verify(manifest), Error);
}

TEST_CASE("extra files are those below what the manifest covers") {
  Fixture fixture;
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

  Fixture other;
  const Manifest cache = put_cache(other.root, "id");
  put_file(other.at("layer1.fp13.bin.tmp"), "");
  CHECK(told(other.verify(cache)) == "extra layer1.fp13.bin.tmp: is not in the manifest\n");
}

TEST_CASE("meta.json and sidecars are compared to the last byte") {
  Fixture fixture;
  const Manifest manifest = put_cache(fixture.root, "id");
  const std::string meta = file_contents(fixture.at("meta.json"));
  put_file(fixture.at("meta.json"), meta + "\n");
  CHECK(contains(told(fixture.verify(manifest)), "content meta.json: is {\"version\": 2"));
  std::filesystem::remove(fixture.at("meta.json"));
  CHECK(told(fixture.verify(manifest)) == "missing meta.json: a file was expected\n");

  Fixture store;
  const Manifest pack = put_pack(store.root, "id");
  const std::string sidecar = derived_files(pack)[0].path;
  put_file(store.at(sidecar),
           format::sidecar_json(format::parse_sidecar(file_contents(store.at(sidecar)), "s").spec, {0}));
  CHECK(contains(told(store.verify(pack)), "\"layers\": [0]"));
}

TEST_CASE("the same data under another identity are told apart from damage") {
  Fixture fixture;
  const Manifest published = put_cache(fixture.scratch / "published", "id A");
  put_cache(fixture.root, "id B");
  Verification result = fixture.verify(published);
  CHECK(told(result) == "identity meta.json: is of identity 'id B', the manifest of 'id A'\n");
  CHECK(contains(advice(published, result, fixture.options).at(0), "rekey --from 'id B' --to 'id A'"));
  flip(fixture.at("layer1.sc2.bin"), 0);
  CHECK(contains(told(fixture.verify(published)), "content layer1.sc2.bin: expert 0"));

  Fixture store;
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

TEST_CASE("an interrupted verification goes on where it stopped") {
  Fixture fixture;
  for (const char* path : {"a", "b"}) {
    File file = File::create(posix(), fixture.at(path));
    file.truncate(5 * kTreeBlock);
    file.write(bytes_of("x"), 17);
  }
  const Manifest manifest = tree_of(fixture, {.xxh3 = true, .sha256 = false});
  flip(fixture.at("a"), kTreeBlock);  // damage that the first run meets must not be forgotten
  Stop stop;
  StopAfter progress(7 * kTreeBlock, stop);
  Context interrupted{.progress = progress, .stop = &stop};
  CHECK_THROWS_AS(verify_files(interrupted, manifest, to_json(manifest), fixture.options), Error);
  CHECK(list_dir(posix(), user_cache_folder() + "/verify").size() == 1);

  SUBCASE("by itself") {
    const Verification result = fixture.verify(manifest);
    CHECK(result.bytes_before >= 5 * kTreeBlock);
    CHECK(result.bytes + result.bytes_before == 10 * kTreeBlock);
    CHECK(contains(told(result), "content a: block 1 "));
    CHECK(list_dir(posix(), user_cache_folder() + "/verify").empty());  // it is over
    CHECK(fixture.verify(manifest).bytes_before == 0);
  }
  SUBCASE("not for a file that changed meanwhile") {
    flip(fixture.at("b"), 17);
    flip(fixture.at("a"), 17);
    const Verification result = fixture.verify(manifest);
    CHECK(result.bytes_before == 0);
    CHECK(contains(told(result), "content a: block 0 to block 1 "));
    CHECK(contains(told(result), "content b: block 0 "));
  }
  SUBCASE("not for another manifest, nor from notes that make no sense") {
    CHECK(verify_files(fixture.context, manifest, "another", fixture.options).bytes_before == 0);
    const std::string note =
        join(user_cache_folder() + "/verify", list_dir(posix(), user_cache_folder() + "/verify")[0]);
    Json json = read_json(posix(), note);
    for (const Json& runs :
         {Json({{3, 1}}), Json({{0, 99}}), Json("x"), Json({{0, -1}}), Json({{2, 3}, {0, 1}})}) {
      json["a"]["good"] = json["b"]["good"] = runs;
      put_file(note, pretty(json));
      CHECK(contains(told(fixture.verify(manifest)), "content a: block 1 "));
    }
    put_file(note, "[");
    CHECK(fixture.verify(manifest).bytes_before == 0);
  }
}

TEST_CASE("whole digests are kept over an interruption, file by file") {
  Fixture fixture;
  for (const char* path : {"a", "b"}) put_file(fixture.at(path), some_bytes(3 * kMiB, path[0]));
  const Manifest manifest = tree_of(fixture, {.xxh3 = false, .sha256 = true});
  Stop stop;
  StopAfter progress(4 * kMiB, stop);
  Context interrupted{.progress = progress, .stop = &stop};
  CHECK_THROWS_AS(verify_files(interrupted, manifest, to_json(manifest), fixture.options), Error);
  const Verification result = fixture.verify(manifest);
  CHECK(result.ok());
  CHECK(result.bytes_before == 3 * kMiB);
}

TEST_CASE("nothing is kept in a tree that holds the user's cache") {
  Fixture fixture;
  setenv("XDG_CACHE_HOME", fixture.at("cache/deep").c_str(), 1);
  put_file(fixture.at("a"), some_bytes(kMiB, 1));
  const Manifest manifest = tree_of(fixture);
  Stop stop;
  StopAfter progress(1, stop);
  Context interrupted{.progress = progress, .stop = &stop};
  CHECK_THROWS_AS(verify_files(interrupted, manifest, to_json(manifest), fixture.options), Error);
  CHECK(list_dir(posix(), fixture.root) == std::vector<std::string>{"a"});
}

TEST_CASE("digests asked for must be there") {
  Fixture fixture;
  put_file(fixture.at("a"), "a");
  const Manifest manifest = tree_of(fixture, {.xxh3 = false, .sha256 = true});
  CHECK(fixture.verify(manifest).ok());
  fixture.options.hashes = Hashes{.xxh3 = true, .sha256 = false};
  try {
    fixture.verify(manifest);
    FAIL_CHECK("accepted");
  } catch (const Error& error) {
    CHECK(error.code() == ErrorCode::usage);
  }
  fixture.options.hashes = Hashes{.xxh3 = true, .sha256 = true};
  CHECK(fixture.verify(manifest).notes.size() == 1);  // what there is was compared
  Manifest bare = manifest;
  bare.files[0].sha256.clear();
  fixture.options.hashes.reset();
  CHECK(fixture.verify(bare).notes.size() == 1);
}

TEST_CASE("a file that cannot be read is a difference, and the others are compared") {
  Fixture fixture;
  const Manifest manifest = put_cache(fixture.root, "id");
  // The failing operation is a read at some point: each file in turn meets it, none is passed over in
  // silence.
  int unreadable = 0;
  for (std::uint64_t nth = 1;; ++nth) {
    FaultOs os(fixture.scratch.path(), Fault::fail(nth, EIO));
    Context context{.os = os};
    try {
      const Verification result = verify_files(context, manifest, to_json(manifest), fixture.options);
      if (!os.hit()) break;
      if (!result.ok()) {
        CHECK(result.differences.size() == 1);
        CHECK(result.differences[0].kind == Kind::unreadable);
        ++unreadable;
      }
    } catch (const Error& error) {
      CHECK(contains(error.what(), "Input/output error"));
    }
  }
  CHECK(unreadable >= 12);
}

TEST_CASE("what sha256sum wrote") {
  Fixture fixture;
  std::filesystem::create_directories(fixture.at("d"));
  put_file(fixture.at("d/a b"), "1");
  put_file(fixture.at("d/new\nline\\"), "2");
  const std::string one = sha256_hex("1"), two = sha256_hex("2");
  const auto verify = [&](const std::string& text) {
    return told(verify_files(fixture.context, read_any_manifest(text, "S"), text, fixture.options));
  };
  CHECK(verify(one + "  ./d/a b\n\\" + two + " *d/new\\nline\\\\\n") == "");
  CHECK(verify("# made by hand\r\nSHA256 (d/a b) = " + one + "\r\n\\SHA256 (d/new\\nline\\\\) = " + two) ==
        "");
  CHECK(verify(one + "  d/a b\n") == "extra d/new\nline\\: is not in the manifest\n");
  CHECK(contains(verify(two + "  d/a b\n"), "content d/a b: SHA-256 is " + one));
  CHECK(contains(verify(one + "  gone\n"), "missing gone"));
  for (const std::string& text :
       {std::string("hello\n"), std::string(), one + " d/a", one.substr(1) + "  d/a", one + "  /etc/passwd",
        one + "  ../x", one + "  a\n" + two + "  a\n", "\\" + one + "  a\\x"})
    CHECK_THROWS_AS(read_any_manifest(text, "S"), Error);
}

TEST_CASE("a repository's listing") {
  Fixture fixture;
  const Manifest manifest = put_cache(fixture.root, "id");
  Json listing =
      Json::array({{{"type", "directory"}, {"oid", std::string(40, '0')}, {"size", 0}, {"path", "v2"}}});
  const auto git_sha1 = [](const std::string& text) {
    GitBlobSha1 sha(text.size());
    sha.update(bytes_of(text));
    return hex(sha.finish());
  };
  CHECK(git_sha1("hello\n") == "ce013625030ba8dba906f756967f9e9ca394464a");
  const auto add = [&](const std::string& path, const std::string& text, bool lfs) {
    Json item = {{"type", "file"},
                 {"oid", git_sha1(text)},
                 {"size", text.size()},
                 {"path", "v2/key/tp1-rank0/" + path}};
    if (lfs) item["lfs"] = {{"oid", sha256_hex(text)}, {"size", text.size()}, {"pointerSize", 134}};
    listing.push_back(item);
  };
  for (const FileEntry& file : manifest.files)
    add(file.path, file_contents(fixture.at(file.path)), !file.path.starts_with("layer1.sc"));
  add("meta.json", file_contents(fixture.at("meta.json")), false);
  add("manifest.json", to_json(manifest), true);
  const auto compare = [&](const Json& json) {
    Verification result;
    result.differences = compare_with_listing(fixture.context, manifest, parse_hf_tree(json.dump(), "t.json"),
                                              fixture.options);
    return told(result);
  };
  CHECK(compare(listing) == "");
  Json changed = listing;
  changed[1]["lfs"]["oid"] = std::string(64, 'a');
  changed[2]["size"] = 1;
  changed[5]["oid"] = std::string(40, 'b');  // layer1.sc13.bin: read here, for its SHA-1
  changed[13]["oid"] = std::string(40, 'c');
  changed.erase(12);
  CHECK(contains(compare(changed), "listing layer1.fp13.bin: SHA-256 in the repository is aaa"));
  CHECK(contains(compare(changed), "listing layer1.fp2.bin: has 1 bytes in the repository, 6144 here"));
  CHECK(contains(compare(changed), "listing layer1.sc13.bin: git's SHA-1 in the repository is bbb"));
  CHECK(contains(compare(changed), "listing meta.json: git's SHA-1 in the repository is ccc"));
  CHECK(contains(compare(changed), "listing layer2.sc2.bin: is not in the repository"));
  changed = listing;
  changed.push_back(changed.back());
  changed.back()["path"] = "v2/key/tp1-rank0/stray";
  CHECK(compare(changed) == "listing stray: is in the repository and not in the manifest\n");
  std::filesystem::remove(fixture.at("layer1.sc13.bin"));
  CHECK(contains(compare(listing), "listing layer1.sc13.bin: cannot be compared"));

  // The listing itself is a list of files to verify.
  Fixture plain;
  put_file(plain.at("a"), "a");
  put_file(plain.at("b"), "b");
  const std::string text =
      Json(
          {{{"type", "file"}, {"oid", git_sha1("a")}, {"size", 1}, {"path", "a"}},
           {{"type", "file"}, {"oid", "x"}, {"size", 1}, {"path", "b"}, {"lfs", {{"oid", sha256_hex("b")}}}}})
          .dump();
  const Manifest from_listing = read_any_manifest(text, "t.json");
  CHECK(told(verify_files(plain.context, from_listing, text, plain.options)) == "");
  flip(plain.at("a"), 0);
  flip(plain.at("b"), 0);
  CHECK(verify_files(plain.context, from_listing, text, plain.options).differences.size() == 2);
  for (const char* bad :
       {"[3]", "[{}]", R"([{"type": "file"}])", R"([{"type": "file", "path": "../x", "size": 1, "oid": ""}])",
        R"([{"type": "file", "path": "x", "size": 1, "oid": "zz"}])", "{\"a\": 1}"})
    CHECK_THROWS_AS(parse_hf_tree(bad, "t.json"), Error);
}

TEST_CASE("a root that is the tree itself") {
  Fixture fixture;
  std::filesystem::create_directories(fixture.at("tree/sub"));
  put_file(fixture.at("tree/sub/a"), "a");
  const Manifest made =
      make_manifest(fixture.context, {fixture.at("tree")}, fixture.at("m.json"), {}).manifest;
  Manifest manifest = made;
  fit_to_root(posix(), manifest, fixture.root);
  CHECK(manifest.files[0].path == "tree/sub/a");
  fit_to_root(posix(), manifest, fixture.scratch.path());  // neither: left as it is
  CHECK(manifest.files[0].path == "tree/sub/a");
  fit_to_root(posix(), manifest, fixture.at("tree"));
  CHECK(manifest.files[0].path == "sub/a");
  CHECK(manifest.covers == std::vector<std::string>{"."});
}
