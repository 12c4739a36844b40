#include "base/text.h"

#include <doctest/doctest.h>

#include <cstdio>
#include <string>

using namespace planesmith;
using namespace std::string_literals;

namespace {

// Well-formed and not, at the borders of each length (Unicode, table 3-7).
const std::string kSound[] = {"a",
                              "\x7f",
                              "\xc2\x80",
                              "\xdf\xbf",
                              "\xe0\xa0\x80",
                              "\xed\x9f\xbf",
                              "\xee\x80\x80",
                              "\xef\xbf\xbf",
                              "\xf0\x90\x80\x80",
                              "\xf4\x8f\xbf\xbf"};
const std::string kBroken[] = {"\x80",
                               "\xbf",
                               "\xc0\x80",
                               "\xc1\xbf",
                               "\xc2",
                               "\xc2\x41",
                               "\xe0\x9f\xbf",
                               "\xe1\x80",
                               "\xed\xa0\x80",
                               "\xf0\x8f\xbf\xbf",
                               "\xf1\x80\x80",
                               "\xf4\x90\x80\x80",
                               "\xf5\x80\x80\x80",
                               "\xfe",
                               "\xff"};

// What a POSIX shell makes of one word.
std::string shell_reads(const std::string& word) {
  FILE* const pipe = ::popen(("printf %s " + word).c_str(), "r");
  REQUIRE(pipe != nullptr);
  std::string out;
  for (int c; (c = std::fgetc(pipe)) != EOF;) out += static_cast<char>(c);
  CHECK(::pclose(pipe) == 0);
  return out;
}

}  // namespace

TEST_CASE("valid and invalid UTF-8") {
  for (const std::string& text : kSound) {
    CAPTURE(text);
    CHECK(utf8_length(text) == text.size());
    CHECK(utf8_length(text + "x") == text.size());
    CHECK(is_utf8("x" + text + "y"));
  }
  for (const std::string& text : kBroken) {
    CAPTURE(text);
    CHECK(utf8_length(text) == 0);
    CHECK(!is_utf8("x" + text));
  }
  CHECK(is_utf8(""));
}

TEST_CASE("what is printed cannot move a terminal's cursor") {
  CHECK(printable("n\xc3\xa4me.bin") == "n\xc3\xa4me.bin");
  CHECK(printable("a\x1b[31mb\n\t\x7f") == "a\\x1b[31mb\\x0a\\x09\\x7f");
  CHECK(printable("\xc2\x9b") == "\\xc2\\x9b");  // C1, which some terminals obey
  CHECK(printable("\xc2\xa0") == "\xc2\xa0");
  CHECK(printable("\xff\xc2") == "\\xff\\xc2");
  CHECK(printable("a\0b"s) == "a\\x00b");
  CHECK(printable("back\\slash") == "back\\slash");
  for (const std::string& text : kBroken) CHECK(is_utf8(printable(text)));
}

TEST_CASE("control characters are found at any position") {
  for (const std::string& text : {"\n"s, "a\x1b"s, "\x7f"s, "a\xc2\x85"s, "a\0"s, "\xff\n"s}) {
    CAPTURE(text);
    CHECK(has_control_characters(text));
  }
  for (const std::string& text : {""s, "plain"s, "n\xc3\xa4me"s, "\xff"s, "\xc2\xa0"s}) {
    CAPTURE(text);
    CHECK(!has_control_characters(text));
  }
}

TEST_CASE("hexadecimal digits, lower case, so many") {
  CHECK(is_hex("0123456789abcdef", 16));
  CHECK(!is_hex("0123456789abcdef", 15));
  CHECK(!is_hex("0123456789abcdeF", 16));
  CHECK(!is_hex("g", 1));
  CHECK(is_hex("", 0));
}

TEST_CASE("a quoted word is what the shell reads, and plain words stay plain") {
  for (const char* plain : {"/a/b-c_d.json", "x=1,2:3@h%+"}) CHECK(shell_quoted(plain) == plain);
  for (const std::string& text : {""s, "a b"s, "it's"s, "$HOME"s, "`id`"s, "*"s, "a\nb"s, "\\"s, "\""s, "'"s,
                                  "~"s, "#x"s, "a;b&c|d"s, "-n"s, "n\xc3\xa4me"s, "\xff"s}) {
    CAPTURE(text);
    CHECK(shell_reads(shell_quoted(text)) == text);
  }
}
