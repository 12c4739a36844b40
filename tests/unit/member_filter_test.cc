#include "chunks/member_filter.h"

#include <doctest/doctest.h>

using planesmith::chunks::MemberFilter;

TEST_CASE("nothing said is everything wanted") {
  const MemberFilter filter({}, {});
  CHECK(filter.everything());
  CHECK(filter.wants("a/b"));
}

TEST_CASE("a glob without a slash is matched with the last component") {
  const MemberFilter filter({"*.json"}, {});
  CHECK(!filter.everything());
  CHECK(filter.wants("meta.json"));
  CHECK(filter.wants("deep/down/meta.json"));
  CHECK(!filter.wants("meta.json.bak"));
  CHECK(!filter.wants("deep/down/other"));
}

TEST_CASE("a glob with a slash is matched with the path, and * matches slashes too") {
  const MemberFilter filter({"cache/*.bin"}, {});
  CHECK(filter.wants("cache/layer0.bin"));
  CHECK(filter.wants("cache/v2/layer0.bin"));
  CHECK(!filter.wants("other/cache/layer0.bin"));
}

TEST_CASE("a directory that matches includes everything in it") {
  const MemberFilter by_name({"sub"}, {}), by_path({"a/sub"}, {});
  CHECK(by_name.wants("sub"));
  CHECK(by_name.wants("a/sub/b/c"));
  CHECK(by_path.wants("a/sub/b"));
  CHECK(!by_path.wants("sub/b"));
  CHECK(!by_name.wants("submarine"));
}

TEST_CASE("an exclusion overrides every inclusion") {
  const MemberFilter only({}, {"*.tmp", "logs"});
  CHECK(only.wants("a"));
  CHECK(!only.wants("a/b.tmp"));
  CHECK(!only.wants("logs/today"));
  const MemberFilter both({"a"}, {"*.tmp"});
  CHECK(both.wants("a/b"));
  CHECK(!both.wants("a/b.tmp"));
  CHECK(!both.wants("b"));
}

TEST_CASE("question marks, sets and escapes") {
  const MemberFilter filter({"layer?.bin", "[ab].txt", "\\*"}, {});
  CHECK(filter.wants("layer7.bin"));
  CHECK(!filter.wants("layer17.bin"));
  CHECK(filter.wants("a.txt"));
  CHECK(!filter.wants("c.txt"));
  CHECK(filter.wants("*"));
  CHECK(!filter.wants("x"));
}
