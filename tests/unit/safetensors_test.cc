// The header reader: what is accepted, and one row for each rule by which something is refused.
#include "checkpoint/safetensors.h"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <optional>

#include "base/error.h"
#include "base/size.h"
#include "peak_memory.h"
#include "safetensors_files.h"

using namespace planesmith;

namespace {

SafetensorsHeader read(const std::string& path) {
  return read_safetensors_header(File::open_read(posix(), path));
}

std::string repeat(std::string_view text, std::size_t times) {
  std::string out;
  while (times-- > 0) out += text;
  return out;
}

// A header that describes tensor "a"; `more` is inserted after data_offsets.
std::string tensor_a(std::string_view dtype, std::string_view shape, std::string_view offsets,
                     std::string_view more = "") {
  return fmt::format(R"({{"a":{{"dtype":"{}","shape":{},"data_offsets":{}{}}}}})", dtype, shape, offsets,
                     more);
}

struct Refused {
  const char* what;
  std::string bytes;  // the whole file
  // The error names the last byte of the first such text in the file; "": the first byte of the file.
  std::string where;
  const char* tensor;  // the tensor it names, "" where there is none
  const char* reason;  // part of the message
};

const std::string kOne = R"({"dtype":"U8","shape":[1],"data_offsets":[0,1]})";

std::vector<Refused> refused_files() {
  const auto announced = [](std::uint64_t header_bytes, std::string_view rest) {
    std::string out;
    for (int i = 0; i < 8; ++i) out += static_cast<char>(header_bytes >> 8 * i);
    return out.append(rest);
  };
  const auto two = [](std::string_view a, std::string_view b, std::string_view data) {
    return safetensors(fmt::format(R"({{"a":{},"b":{}}})", a, b), data);
  };
  const std::string deep_lists = repeat("[", 500'000), deep_objects = repeat(R"({"y":)", 500'000);
  return {
      {"an empty file", "", "", "", "has 0 bytes"},
      {"seven bytes", "1234567", "", "", "at least 8"},
      {"a header longer than the file", announced(3, "{}"), "", "",
       "header of 3 bytes announced, but the file has 10"},
      {"a header above the limit", announced(100'000'001, "{}"), "", "", "at most 100000000"},
      {"a length that wraps around", announced(~std::uint64_t{0}, "{}"), "", "", "at most 100000000"},
      {"a git-LFS pointer", "version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 12\n", "", "",
       "git-LFS pointer"},
      {"only white space", safetensors(" \n\t "), "\t ", "", "not valid JSON"},
      {"a byte order mark", safetensors("\xEF\xBB\xBF{}"), "\xEF", "", "byte order mark"},
      {"a NUL and text behind the object", safetensors({"{}\0{}", 5}), {"}\0", 2}, "", "NUL"},
      {"text behind the object", safetensors("{}x"), "x", "", "not valid JSON"},
      {"two objects", safetensors("{}{}"), "{}{", "", "not valid JSON"},
      {"broken JSON", safetensors(R"({"a":)"), R"("a":)", "", "not valid JSON"},
      {"broken JSON inside a tensor", safetensors(R"({"a":{"shape":[1,]}})"), "1,]", "a", "not valid JSON"},
      {"a comment", safetensors("{/**/}"), "{/", "", "not valid JSON"},
      {"invalid UTF-8 in a name", safetensors("{\"\xFF\":" + kOne + "}", "x"), "\xFF", "", "not valid JSON"},
      {"half a surrogate pair", safetensors(R"({"\ud800":)" + kOne + "}", "x"), R"(\ud800")", "",
       "not valid JSON"},
      {"an array", safetensors("[]"), "[", "", "is an array"},
      {"a number", safetensors("3"), "3", "", "is a number"},
      {"null", safetensors("null"), "null", "", "is null"},
      {"lists nested half a million deep", safetensors(deep_lists), "[", "", "is an array"},
      {"the same inside a tensor", safetensors(tensor_a("U8", "[1]", "[0,1]", R"(,"x":)" + deep_lists)),
       repeat("[", 63), "a", "nested deeper than 64 levels"},
      {"objects nested half a million deep",
       safetensors(tensor_a("U8", "[1]", "[0,1]", R"(,"x":)" + deep_objects)),
       R"("x":)" + repeat(R"({"y":)", 62) + "{", "a", "nested deeper than 64 levels"},
      {"a tensor twice", safetensors(R"({"a":)" + kOne + R"(,"a": )" + kOne + "}", "x"), R"("a": {)", "a",
       "described twice, at byte 13 and again here"},
      {"the same name spelt differently", safetensors(R"({"a":)" + kOne + R"(,"\u0061":)" + kOne + "}", "x"),
       R"(61":{)", "a", "described twice"},
      {"__metadata__ twice", safetensors(R"({"__metadata__":{},"__metadata__":{}})"), R"(},"__metadata__")",
       "", "appears twice"},
      {"a metadata key twice", safetensors(R"({"__metadata__":{"k":"1","l":"2","k":"3"}})"), "{", "",
       "the key \"k\" twice"},
      {"metadata that is a string", safetensors(R"({"__metadata__":"pt"})"), R"("pt")", "", "is a string"},
      {"metadata that is a list", safetensors(R"({"__metadata__":["pt"]})"), "[", "", "is an array"},
      {"a number in the metadata", safetensors(R"({"__metadata__":{"format":1}})"), "1}", "",
       R"("__metadata__"["format"] is a number)"},
      {"a list in the metadata", safetensors(R"({"__metadata__":{"k":["v"]}})"), "[", "",
       R"(["k"] is an array)"},
      {"an object in the metadata", safetensors(R"({"__metadata__":{"k":{}}})"), R"("k":{)", "",
       R"(["k"] is an object)"},
      {"null in the metadata", safetensors(R"({"__metadata__":{"k":null}})"), "null", "", R"(["k"] is null)"},
      {"a tensor that is a number", safetensors(R"({"a":5})"), "5}", "a", "is a number"},
      {"a tensor that is a list", safetensors(R"({"a":["U8",[1],[0,1]]})", "x"), "[", "a", "is an array"},
      {"no dtype", safetensors(R"({"a":{"shape":[1],"data_offsets":[0,1]}})", "x"), "]}", "a",
       R"(lacks "dtype")"},
      {"no shape", safetensors(R"({"a":{"dtype":"U8","data_offsets":[0,1]}})", "x"), "]}", "a",
       R"(lacks "shape")"},
      {"no data_offsets", safetensors(R"({"a":{"dtype":"U8","shape":[1]}})", "x"), "]}", "a",
       R"(lacks "data_offsets")"},
      {"a member twice", safetensors(tensor_a("U8", "[1]", "[0,1]", R"(,"dtype":"I8")"), "x"), R"(],"dtype")",
       "a", R"("dtype" appears twice)"},
      {"an unknown member twice", safetensors(tensor_a("U8", "[1]", "[0,1]", R"(,"x":1,"x":2)"), "x"),
       R"(1,"x")", "a", R"("x" appears twice)"},
      {"members without end",
       safetensors(
           tensor_a(
               "U8", "[1]", "[0,1]",
               R"(,"b":1,"c":1,"d":1,"e":1,"f":1,"g":1,"h":1,"i":1,"j":1,"k":1,"l":1,"m":1,"n":1,"o":1)"),
           "x"),
       R"("o")", "a", "too many members"},
      {"a dtype that is no string", safetensors(R"({"a":{"dtype":8,"shape":[1],"data_offsets":[0,1]}})", "x"),
       "8,", "a", "dtype is a number"},
      {"a dtype that is a list",
       safetensors(R"({"a":{"dtype":["U8"],"shape":[1],"data_offsets":[0,1]}})", "x"), "[", "a",
       "dtype is an array"},
      {"a shape that is a number", safetensors(tensor_a("U8", "1", "[0,1]"), "x"), "1,", "a",
       "shape is a number"},
      {"a shape that is an object", safetensors(tensor_a("U8", "{}", "[0,1]"), "x"), R"("shape":{)", "a",
       "shape is an object"},
      {"a list in a shape", safetensors(tensor_a("U8", "[[1]]", "[0,1]"), "x"), "[[", "a",
       "shape is an array"},
      {"a negative side", safetensors(tensor_a("U8", "[-1]", "[0,1]"), "x"), "-1]", "a",
       "shape is a negative number"},
      {"minus zero", safetensors(tensor_a("U8", "[-0]", "[0,0]")), "-0]", "a", "shape is a negative number"},
      {"a side with a point", safetensors(tensor_a("U8", "[1.0]", "[0,1]"), "x"), "1.0]", "a",
       "not a whole one"},
      {"a side with an exponent", safetensors(tensor_a("U8", "[1e0]", "[0,1]"), "x"), "1e0]", "a",
       "not a whole one"},
      {"a side of 2^64", safetensors(tensor_a("U8", "[18446744073709551616]", "[0,1]"), "x"), "616]", "a",
       "not a whole one"},
      {"a side as text", safetensors(tensor_a("U8", R"(["1"])", "[0,1]"), "x"), R"("1")", "a",
       "shape is a string"},
      {"a side that is true", safetensors(tensor_a("U8", "[true]", "[0,1]"), "x"), "true", "a",
       "shape is a boolean"},
      {"65 dimensions", safetensors(tensor_a("U8", "[" + repeat("1,", 64) + "2]", "[0,1]"), "x"), "2]", "a",
       "more than 64 dimensions"},
      {"offsets that are no list", safetensors(tensor_a("U8", "[1]", "0"), "x"), "0}", "a",
       "data_offsets is a number"},
      {"one offset", safetensors(tensor_a("U8", "[1]", "[0]"), "x"), "[0]", "a", "1 numbers"},
      {"three offsets", safetensors(tensor_a("U8", "[1]", "[0,1,2]"), "x"), "2]", "a", "more numbers"},
      {"a negative offset", safetensors(tensor_a("U8", "[1]", "[-1,0]"), "x"), "-1,", "a",
       "a negative number"},
      {"an offset with a point", safetensors(tensor_a("U8", "[1]", "[0.0,1]"), "x"), "0.0,", "a",
       "not a whole one"},
      {"an end before the beginning", safetensors(tensor_a("U8", "[1]", "[1,0]"), "x"), "]}", "a",
       "end before they begin"},
      {"elements that overflow", safetensors(tensor_a("U8", "[4294967296,4294967296]", "[0,1]"), "x"), "]}",
       "a", "more elements"},
      {"elements that overflow before a zero",
       safetensors(tensor_a("U8", "[4294967296,4294967296,0]", "[0,0]")), "]}", "a", "more elements"},
      {"bits that overflow", safetensors(tensor_a("F64", "[4611686018427387904]", "[0,1]"), "x"), "]}", "a",
       "more bits"},
      {"overflow in a dtype of the future",
       safetensors(tensor_a("F3", "[4294967296,4294967296]", "[0,1]"), "x"), "]}", "a", "more elements"},
      {"half a byte", safetensors(tensor_a("F4", "[3]", "[0,2]"), "xx"), "]}", "a", "whole bytes"},
      {"six bits", safetensors(tensor_a("F6_E2M3", "[1]", "[0,1]"), "x"), "]}", "a", "whole bytes"},
      {"a size that is too small", safetensors(tensor_a("F32", "[2]", "[0,4]"), "xxxx"), "]}", "a",
       "hold 4 bytes, F32 of shape [2] takes 8"},
      {"a size that is too big", safetensors(tensor_a("F32", "[]", "[0,8]"), "xxxxxxxx"), "]}", "a",
       "hold 8 bytes, F32 of shape [] takes 4"},
      {"a zero-sized tensor with bytes", safetensors(tensor_a("F32", "[0]", "[0,4]"), "xxxx"), "]}", "a",
       "takes 0"},
      {"a hole at the start", safetensors(tensor_a("U8", "[1]", "[1,2]"), "xx"), R"("a":{)", "a",
       "leave a hole: the data before ends at 0"},
      {"a hole in the middle", two(kOne, R"({"dtype":"U8","shape":[1],"data_offsets":[2,3]})", "xxx"),
       R"("b":{)", "b", "leave a hole"},
      {"an overlap",
       two(R"({"dtype":"U8","shape":[2],"data_offsets":[0,2]})",
           R"({"dtype":"U8","shape":[2],"data_offsets":[1,3]})", "xxx"),
       R"("b":{)", "b", "overlap tensor 'a'"},
      {"the same place twice", two(kOne, kOne, "x"), R"("b":{)", "b", "overlap tensor 'a'"},
      {"a zero-sized tensor inside another",
       two(R"({"dtype":"U8","shape":[2],"data_offsets":[0,2]})",
           R"({"dtype":"U8","shape":[0],"data_offsets":[1,1]})", "xx"),
       R"("b":{)", "b", "overlap"},
      {"a file cut short", safetensors(tensor_a("U8", "[4]", "[0,4]"), "xxx"), R"("a":{)", "a",
       "beyond the end of the file"},
      {"offsets at the end of all numbers",
       safetensors(tensor_a("F3", "[1]", "[0,18446744073709551615]"), "x"), R"("a":{)", "a",
       "beyond the end of the file"},
      {"a byte behind the last tensor", safetensors(tensor_a("U8", "[1]", "[0,1]"), "xz"), "z", "",
       "1 bytes after the last tensor"},
      {"data but no tensor", safetensors("{}", "z"), "z", "", "1 bytes after the last tensor"},
  };
}

struct Accepted {
  const char* what;
  std::string bytes;
  std::size_t tensors;
};

std::vector<Accepted> accepted_files() {
  return {
      {"no tensors", safetensors("{}"), 0},
      {"white space before and behind", safetensors(" \t\r\n{ } \t\r\n  "), 0},
      {"metadata", safetensors(R"({"__metadata__":{"format":"pt","":""}})"), 0},
      {"metadata at the end", safetensors(R"({"a":)" + kOne + R"(,"__metadata__":{"format":"pt"}})", "x"), 1},
      {"metadata that is null", safetensors(R"({"__metadata__":null})"), 0},
      {"members in another order",
       safetensors(R"({"a":{"data_offsets":[0,1],"shape":[1],"dtype":"U8"}})", "x"), 1},
      {"unknown members", safetensors(tensor_a("U8", "[1]", "[0,1]", R"(,"x":[1,{"y":null}],"z":-1.5)"), "x"),
       1},
      {"a scalar", safetensors(tensor_a("F32", "[]", "[0,4]"), "xxxx"), 1},
      {"64 dimensions", safetensors(tensor_a("U8", "[" + repeat("1,", 63) + "1]", "[0,1]"), "x"), 1},
      {"no elements", safetensors(tensor_a("F32", "[0,7]", "[0,0]")), 1},
      {"no elements, then sides that would overflow",
       safetensors(tensor_a("U8", "[0,4294967296,4294967296]", "[0,0]")), 1},
      {"an empty name", safetensors(R"({"":)" + kOne + "}", "x"), 1},
      {"a name with an escaped NUL", safetensors(R"({"a\u0000b":)" + kOne + "}", "x"), 1},
      {"three nibbles by two", safetensors(tensor_a("F4", "[3,2]", "[0,3]"), "xxx"), 1},
      {"four values of six bits", safetensors(tensor_a("F6_E3M2", "[4]", "[0,3]"), "xxx"), 1},
      {"a dtype of the future", safetensors(tensor_a("F3_E1M1", "[5]", "[0,2]"), "xx"), 1},
      {"tensors described backwards",
       safetensors(R"({"b":{"dtype":"U8","shape":[1],"data_offsets":[1,2]},"a":)" + kOne + "}", "xy"), 2},
      {"zero-sized tensors at every seam",
       safetensors(R"({"z":{"dtype":"U8","shape":[0],"data_offsets":[1,1]},"a":)" + kOne +
                       R"(,"y":{"dtype":"U8","shape":[0],"data_offsets":[0,0]}})",
                   "x"),
       3},
  };
}

}  // namespace

TEST_CASE("each rule refuses its file and says where") {
  const Scratch scratch;
  const std::string path = scratch / "x.safetensors";
  int refused = 0;
  for (const Refused& row : refused_files()) {
    CAPTURE(row.what);
    put_file(path, row.bytes);
    std::optional<Error> error;
    try {
      read(path);
    } catch (const Error& e) {
      error = e;
    }
    REQUIRE(error);
    CAPTURE(error->what());
    CHECK(error->path() == path);
    CHECK(error->tensor() == row.tensor);
    CHECK(error->reason().find(row.reason) != std::string::npos);
    REQUIRE(error->offset());
    CHECK(*error->offset() == (row.where.empty() ? 0 : row.bytes.find(row.where) + row.where.size() - 1));
    CHECK(std::string_view(error->what()).size() < 1000);
    ++refused;
  }
  MESSAGE(refused << " hostile headers refused");
}

TEST_CASE("what is unusual but right is accepted") {
  const Scratch scratch;
  const std::string path = scratch / "x.safetensors";
  for (const Accepted& row : accepted_files()) {
    CAPTURE(row.what);
    put_file(path, row.bytes);
    SafetensorsHeader header;
    CHECK_NOTHROW(header = read(path));
    CHECK(header.tensors.size() == row.tensors);
    CHECK(header.file_bytes == row.bytes.size());
    for (std::size_t i = 1; i < header.tensors.size(); ++i)
      CHECK(header.tensors[i - 1].offset + header.tensors[i - 1].size == header.tensors[i].offset);
  }
}

TEST_CASE("a header is read verbatim") {
  const Scratch scratch;
  const std::string path = scratch / "x.safetensors";
  const std::string text =
      R"({"__metadata__":{"format":"pt"},"b":{"dtype":"Q5","shape":[7],"data_offsets":[8,13]},)"
      R"("a":{"dtype":"F32","shape":[1,2],"data_offsets":[0,8]}})";
  put_file(path, safetensors(text, "0123456789abc"));
  const SafetensorsHeader header = read(path);
  CHECK(header.header_bytes == text.size());
  REQUIRE(header.metadata.size() == 1);
  CHECK(header.metadata[0] == std::pair<std::string, std::string>{"format", "pt"});
  REQUIRE(header.tensors.size() == 2);
  const Tensor &a = header.tensors[0], &b = header.tensors[1];
  CHECK(a.name == "a");
  CHECK(a.dtype == Dtype::f32);
  CHECK(a.shape == std::vector<std::uint64_t>{1, 2});
  CHECK(a.offset == 8 + text.size());
  CHECK(a.size == 8);
  CHECK(file_contents(path)[a.described_at] == '{');
  CHECK(b.name == "b");
  CHECK(b.dtype == Dtype::other);
  CHECK(dtype_text(b) == "Q5");
  CHECK(b.offset == 16 + text.size());
  CHECK(b.size == 5);
}

TEST_CASE("all dtypes are known by name and size") {
  const std::pair<const char*, unsigned> dtypes[] = {
      {"BOOL", 8},        {"U8", 8},      {"I8", 8},      {"U16", 16},    {"I16", 16},    {"F16", 16},
      {"BF16", 16},       {"U32", 32},    {"I32", 32},    {"F32", 32},    {"U64", 64},    {"I64", 64},
      {"F64", 64},        {"C64", 64},    {"F8_E4M3", 8}, {"F8_E5M2", 8}, {"F8_E8M0", 8}, {"F8_E4M3FNUZ", 8},
      {"F8_E5M2FNUZ", 8}, {"F6_E2M3", 6}, {"F6_E3M2", 6}, {"F4", 4}};
  for (const auto& row : dtypes) {
    const char* text = row.first;
    CAPTURE(text);
    CHECK(parse_dtype(text) != Dtype::other);
    CHECK(name(parse_dtype(text)) == text);
    CHECK(bits(parse_dtype(text)) == row.second);
  }
  for (const char* text : {"", "f32", "F32 ", "E8M0", "unknown"}) CHECK(parse_dtype(text) == Dtype::other);
  CHECK(bits(Dtype::other) == 0);
}

TEST_CASE("names are printed with their control characters escaped") {
  const Scratch scratch;
  const std::string path = scratch / "x.safetensors";
  put_file(path, safetensors(R"({"\u001b[2Jlayers\n":5})"));
  std::string message;
  try {
    read(path);
  } catch (const Error& e) {
    message = e.what();
  }
  CHECK(message.find(R"(tensor '\x1b[2Jlayers\x0a')") != std::string::npos);
  CHECK(message.find('\x1b') == std::string::npos);
  CHECK(message.find('\n') == std::string::npos);
}

TEST_CASE("headers that cross the reader's blocks are read whole") {
  const Scratch scratch;
  const std::string path = scratch / "x.safetensors";
  std::vector<TensorSpec> specs;
  for (int i = 0; i < 20'000; ++i)
    specs.push_back({fmt::format("layers.{}.weight", i), "U8", {std::uint64_t(i % 3)}});
  put_safetensors(path, specs);
  const SafetensorsHeader header = read(path);
  CHECK(header.header_bytes > 1'000'000);
  CHECK(header.tensors.size() == specs.size());
}

TEST_CASE("a header of no bytes is refused") {
  const Scratch scratch;
  put_file(scratch / "x.safetensors", safetensors(""));
  CHECK_THROWS_WITH_AS(read(scratch / "x.safetensors"), doctest::Contains("at byte 8: not valid JSON"),
                       Error);
}

TEST_CASE("a header of 99 MB with a million tensors takes bounded memory") {
  const Scratch scratch;
  const std::string path = scratch / "x.safetensors";
  constexpr int kTensors = 1'000'000;
  {
    std::string header = "{";
    for (int i = 0; i < kTensors; ++i)
      header += fmt::format(
          R"("model.layers.0.mlp.experts.{:016}":{{"dtype":"U8","shape":[0],"data_offsets":[0,0]}},)", i);
    header.back() = '}';
    header.resize(99'000'000, ' ');
    put_file(path, safetensors(header));
  }
  const auto work = [&] { return read(path).tensors.size() == kTensors; };
  if (kMemoryIsMeasurable)
    CHECK(peak_memory_of(work) < 512 * kMiB);
  else
    CHECK(work());
}
