// Changes of a JSON file's members: what is replaced, added and removed, and that the rest of the text stays.
#include "rewrite/json_text.h"

#include <doctest/doctest.h>

#include "base/error.h"

using namespace planesmith;

TEST_CASE("members are replaced, added and removed in place") {
  JsonText json("{\n  \"a\": 1.50,\n  \"b\": {\"c\": [1,  2]}\n}\n", "f.json");
  CHECK(json.value({"b", "c"}) == OrderedJson{1, 2});
  json.set({"b", "c"}, 3);
  json.set({"d"}, true);
  CHECK(json.text() == "{\n  \"a\": 1.50,\n  \"b\": {\"c\": 3},\n  \"d\": true\n}\n");
  json.drop({"a"});
  json.drop({"d"});
  CHECK(json.text() == "{\n  \"b\": {\"c\": 3}\n}\n");
}

TEST_CASE("a key that is spelled with escapes is the same key") {
  JsonText json(R"({"\u0061": {"b\/c": 1, "\\": 2}, "d": 3})", "f.json");
  CHECK(json.value({"a", "b/c"}) == 1);
  CHECK(json.value({"a", "\\"}) == 2);
  json.set({"a", "b/c"}, 4);
  CHECK(json.text() == R"({"\u0061": {"b\/c": 4, "\\": 2}, "d": 3})");
  json.drop({"a"});
  CHECK(json.text() == R"({"d": 3})");
  CHECK_THROWS_AS(JsonText(R"({"a": 1, "\u0061": 2})", "f.json"), Error);  // the same key twice
}
