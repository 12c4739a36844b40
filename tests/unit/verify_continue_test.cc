// Verifications that are interrupted and continue, missing digests, unreadable files.
#include <doctest/doctest.h>
#include <errno.h>

#include <filesystem>

#include "base/error.h"
#include "base/user_cache.h"
#include "fault/fault_os.h"
#include "stop_after.h"
#include "unit/verify_fixture.h"
#include "verify/verify_files.h"

using namespace planesmith;
using Kind = Difference::Kind;

TEST_CASE("an interrupted verification continues where it stopped") {
  VerifyFixture fixture;
  for (const char* path : {"a", "b"}) {
    File file = File::create(posix(), fixture.at(path));
    file.truncate(5 * kTreeBlock);
    file.write(bytes_of("x"), 17);
  }
  const Manifest manifest = tree_of(fixture, {.xxh3 = true, .sha256 = false});
  flip(fixture.at("a"), kTreeBlock);  // damage that the first run meets must not be forgotten
  Stop stop;
  StopAfter progress(stop, 7 * kTreeBlock);
  Context interrupted{.progress = progress, .stop = &stop};
  CHECK_THROWS_AS(verify_files(interrupted, manifest, to_json(manifest), fixture.options), Error);
  CHECK(list_dir(posix(), user_cache_directory() + "/verify").size() == 1);

  SUBCASE("by itself") {
    const Verification result = fixture.verify(manifest);
    CHECK(result.bytes_before >= 5 * kTreeBlock);
    CHECK(result.bytes + result.bytes_before == 10 * kTreeBlock);
    CHECK(contains(told(result), "content a: block 1 "));
    CHECK(list_dir(posix(), user_cache_directory() + "/verify").empty());  // it is over
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
        join(user_cache_directory() + "/verify", list_dir(posix(), user_cache_directory() + "/verify")[0]);
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
  VerifyFixture fixture;
  for (const char* path : {"a", "b"}) put_file(fixture.at(path), some_bytes(3 * kMiB, path[0]));
  const Manifest manifest = tree_of(fixture, {.xxh3 = false, .sha256 = true});
  Stop stop;
  StopAfter progress(stop, 4 * kMiB);
  Context interrupted{.progress = progress, .stop = &stop};
  CHECK_THROWS_AS(verify_files(interrupted, manifest, to_json(manifest), fixture.options), Error);
  const Verification result = fixture.verify(manifest);
  CHECK(result.ok());
  CHECK(result.bytes_before == 3 * kMiB);
}

TEST_CASE("nothing is kept in a tree that holds the user's cache") {
  VerifyFixture fixture;
  setenv("XDG_CACHE_HOME", fixture.at("cache/deep").c_str(), 1);
  put_file(fixture.at("a"), some_bytes(kMiB, 1));
  const Manifest manifest = tree_of(fixture);
  Stop stop;
  StopAfter progress(stop, 1);
  Context interrupted{.progress = progress, .stop = &stop};
  CHECK_THROWS_AS(verify_files(interrupted, manifest, to_json(manifest), fixture.options), Error);
  CHECK(list_dir(posix(), fixture.root) == std::vector<std::string>{"a"});
}

TEST_CASE("digests asked for must be there") {
  VerifyFixture fixture;
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
  VerifyFixture fixture;
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
