// The readers and writers of JSON: what is refused and where, what Python's reader accepts in addition, and
// the exact bytes written.
#include "base/json.h"

#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "base/error.h"
#include "base/json_stream.h"
#include "scratch.h"

using namespace planesmith;
using namespace std::string_literals;

namespace {

// The refusal's text and byte.
template <typename Read>
std::pair<std::string, std::optional<std::uint64_t>> refusal(Read read) {
  try {
    read();
  } catch (const Error& error) {
    CHECK(error.path() == "f.json");
    return {error.reason(), error.offset()};
  }
  FAIL("accepted");
  return {};
}

bool refused(const std::string& text) {
  try {
    parse_json(text, "f.json");
  } catch (const Error&) {
    return true;
  }
  return false;
}

// Everything that a visitor sees, in short.
class Recorder : public JsonVisitor {
 public:
  void open(char bracket) override { seen += fmt_depth() + bracket; }
  void close() override { seen += fmt_depth() + "x"; }
  void key(std::string& name) override { seen += "k" + name; }
  void text(std::string& value) override { seen += "t" + value; }
  void number(std::uint64_t value) override { seen += "n" + std::to_string(value); }
  void other(std::string_view kind) override { seen += "o" + std::string(kind); }
  std::string seen;

 private:
  std::string fmt_depth() const { return std::to_string(depth()); }
};

std::string visited(const std::string& text, std::uint64_t before = 0) {
  const Scratch scratch;
  put_file(scratch / "f.json", std::string(before, '#') + text + "#");
  Recorder recorder;
  visit_json(File::open_read(posix(), scratch / "f.json"), before, text.size(), recorder);
  return recorder.seen;
}

}  // namespace

TEST_CASE("a document is read whole or refused with its byte") {
  CHECK(parse_json(R"({"a": [1, "x", null, true, -2, 0.5]})", "f.json") ==
        Json({{"a", {1, "x", nullptr, true, -2, .5}}}));
  const auto [reason, offset] = refusal([] { parse_json(R"({"a": 1,})", "f.json"); });
  CHECK(reason.starts_with("not valid JSON"));
  CHECK(offset == 9);
  for (const char* text :
       {"", "{", "[1, 2", "{'a': 1}", "nul", "01", "[1] x", "NaN", "\"\x01\"", "\"\xff\""}) {
    CAPTURE(text);
    CHECK(refused(text));
  }
}

TEST_CASE("a NUL byte and a byte order mark are refused as Python refuses them") {
  CHECK(refusal([] { parse_json("{}\0"s, "f.json"); }).second == 2);
  CHECK(refusal([] { parse_json("\xEF\xBB\xBF{}", "f.json"); }).second == 0);
}

TEST_CASE("a key that appears twice is refused, but not in different objects") {
  CHECK(refusal([] { parse_json(R"({"a": 1, "a": 2})", "f.json"); }).first.find("'a' appears twice") !=
        std::string::npos);
  CHECK(!refused(R"([{"a": 1}, {"a": 2}])"));
}

TEST_CASE("nesting and memory have an end") {
  CHECK(!refused(std::string(64, '[') + std::string(64, ']')));
  CHECK(refused(std::string(65, '[') + std::string(65, ']')));
  CHECK(refused(std::string(1'000'000, '[')));
  std::string wide = "[0";
  for (int i = 0; i < 100'000; ++i) wide += ",0";
  wide += "]";
  CHECK_NOTHROW(parse_json(wide, "f.json"));
  CHECK_THROWS_AS(parse_json(wide, "f.json", 64, 1 << 20), Error);
}

TEST_CASE("Python's NaN and Infinity become strings, too large numbers too, its last key wins") {
  CHECK(parse_python_json(R"({"a": [0.0, Infinity, -Infinity, NaN], "b": 1, "b": 2})", "f.json") ==
        Json({{"a", {0., "Infinity", "-Infinity", "NaN"}}, {"b", 2}}));
  CHECK(parse_python_json(R"({"a": "say \"NaN\" Infinity"})", "f.json")["a"] == "say \"NaN\" Infinity");
  CHECK(parse_python_json(R"(["a\\", NaN])", "f.json") == Json({"a\\", "NaN"}));
  CHECK(parse_python_json(R"([1e999, -1.5E+400, 1e308, 1e-999, "1e999", 0.001e310])", "f.json") ==
        Json({"1e999", "-1.5E+400", 1e308, 0., "1e999", 1e307}));
  CHECK_THROWS_AS(parse_json("[1e999]", "f.json"), Error);
  CHECK_THROWS_AS(parse_python_json("[1e999x]", "f.json"), Error);
}

TEST_CASE("after such a value an error still names the byte of the file") {
  const std::string text = R"([NaN, Infinity, ?])";
  CHECK(refusal([&] { parse_python_json(text, "f.json"); }).second == text.find('?') + 1);
}

TEST_CASE("whole numbers only") {
  CHECK(whole_number(parse_json("0", "f.json")) == 0);
  CHECK(whole_number(parse_json("18446744073709551615", "f.json")) == ~std::uint64_t{0});
  for (const char* text : {"-1", "1.0", "1e3", "18446744073709551616", "\"1\"", "true", "null", "[]"}) {
    CAPTURE(text);
    CHECK_THROWS_AS(whole_number(parse_json(text, "f.json")), Error);
  }
}

TEST_CASE("written as the engine's Python writes it, to the byte") {
  const Json value = {
      {"b", {1, "x"}}, {"a", {{"n", nullptr}, {"t", true}}}, {"\xc3\xa4", "\xe2\x82\xac\n\""}};
  CHECK(compact(value) == R"({"a":{"n":null,"t":true},"b":[1,"x"],"\u00e4":"\u20ac\n\""})");
  CHECK(spaced(value) == R"({"a": {"n": null, "t": true}, "b": [1, "x"], "\u00e4": "\u20ac\n\""})");
  nlohmann::ordered_json ordered;
  ordered["z"] = 1;
  ordered["a"] = nlohmann::ordered_json::array();
  CHECK(spaced(ordered) == R"({"z": 1, "a": []})");
  CHECK(pretty(Json({{"a", 1}})) == "{\n \"a\": 1\n}\n");
  CHECK_THROWS_AS(compact(Json("\xff")), Error);
  CHECK_THROWS_AS(spaced(Json("\xff")), Error);
}

TEST_CASE("a file is shown to a visitor in order, from any place in it") {
  const std::string text = R"({"a": [1, "x\u00e4", -1, null, true, 1.5, {}], "b": "y"})";
  const std::string seen = visited(text);
  CHECK(seen ==
        "0{ka1[n1tx\xc3\xa4oa negative numberonulloa booleanoa number that is not a whole one below "
        "2^642{2x1xkbty0x");
  CHECK(visited(text, 70'000) == seen);
}

TEST_CASE("a visitor's document is refused as strictly, at the byte of the file") {
  for (const std::string& text : {"{\"a\": 1,}"s, "[1] [2]"s, "{}\0"s, "\xEF\xBB\xBF{}"s, "[\"\xff\"]"s, ""s,
                                  std::string(65, '[') + std::string(65, ']')}) {
    CAPTURE(text);
    CHECK_THROWS_AS(visited(text), Error);
    CHECK_THROWS_AS(visited(text, 5000), Error);
  }
}
