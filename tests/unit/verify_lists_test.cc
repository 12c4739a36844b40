// Lists that others write: sha256sum's, a repository's; and roots that are not the manifest's directory.
#include <doctest/doctest.h>

#include <filesystem>

#include "base/error.h"
#include "manifest/foreign.h"
#include "unit/verify_fixture.h"
#include "verify/verify_files.h"

using namespace planesmith;

TEST_CASE("what sha256sum wrote") {
  VerifyFixture fixture;
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
  VerifyFixture fixture;
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
  VerifyFixture plain;
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
  VerifyFixture fixture;
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
