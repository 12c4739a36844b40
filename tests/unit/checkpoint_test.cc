// Opening checkpoint directories: index, shards, and what is refused.
#include "checkpoint/checkpoint.h"

#include <doctest/doctest.h>
#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <functional>
#include <optional>

#include "base/error.h"
#include "safetensors_files.h"

using namespace planesmith;

namespace fs = std::filesystem;

namespace {

const std::string kOne = "one.safetensors", kTwo = "two.safetensors";
const std::string kPointer = "version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n";

std::string index_json(const std::vector<std::pair<std::string, std::string>>& entries) {
  nlohmann::json index;
  for (const auto& [tensor, shard] : entries) index["weight_map"][tensor] = shard;
  return index.dump();
}

// A directory with tensors a and b in one shard, c in another, and an index.
void put_good(const Scratch& scratch) {
  scratch.clear();
  put_file(scratch / "config.json", "{}");
  put_safetensors(scratch / kOne, {{"a", "U8", {3}}, {"b", "F32", {2}}});
  put_safetensors(scratch / kTwo, {{"c", "BF16", {1, 2}}});
  put_file(scratch / std::string(kIndexName), index_json({{"a", kOne}, {"b", kOne}, {"c", kTwo}}));
}

Checkpoint open_with(const Scratch& scratch, int threads = 2) {
  Context context;
  context.threads = threads;
  return Checkpoint::open(context, scratch.path());
}

std::optional<Error> refusal(const Scratch& scratch) {
  try {
    open_with(scratch);
  } catch (const Error& e) {
    return e;
  }
  return std::nullopt;
}

std::vector<std::string> names(const Checkpoint& checkpoint) {
  std::vector<std::string> out;
  for (const Tensor& tensor : checkpoint.tensors()) out.push_back(tensor.name);
  return out;
}

struct Broken {
  const char* what;
  std::function<void(const Scratch&)> make;  // out of a good directory
  std::string path;                          // path that the error must name, relative to the directory
  const char* tensor;
  const char* reason;
};

std::vector<Broken> broken_directories() {
  const std::string config = "config.json", index(kIndexName);
  const auto put = [](std::string name, std::string text) {
    return [=](const Scratch& s) { put_file(s / name, text); };
  };
  const auto list = [&](const std::string& shard) { return put(index, index_json({{"a", shard}})); };
  const auto replaced = [](std::string name, std::function<void(const std::string&)> make) {
    return [=](const Scratch& s) {
      fs::remove(s / name);
      make(s / name);
    };
  };
  const auto fifo = [](const std::string& path) { REQUIRE(::mkfifo(path.c_str(), 0600) == 0); };
  const auto directory = [](const std::string& path) { fs::create_directory(path); };
  const auto loop = [](const std::string& path) { fs::create_symlink(path, path); };
  const auto device = [](const std::string& path) { fs::create_symlink("/dev/zero", path); };
  const auto nothing = [](const std::string&) {};
  const std::string deep(500'000, '[');
  return {
      {"no config.json", replaced(config, nothing), config, "", "is missing"},
      {"config.json is a FIFO", replaced(config, fifo), config, "", "not a regular file"},
      {"config.json is a directory", replaced(config, directory), config, "", "is a directory"},
      {"config.json is a link to itself", replaced(config, loop), config, "", "levels of symbolic links"},
      {"config.json is a device", replaced(config, device), config, "", "not a regular file"},
      {"config.json is empty", put(config, ""), config, "", "not valid JSON"},
      {"config.json is a list", put(config, "[]"), config, "", "not a JSON object"},
      {"config.json is nested deeply", put(config, deep), config, "", "nested deeper"},
      {"config.json has a NUL", put(config, std::string("{}\0x", 4)), config, "", "NUL"},
      {"config.json has a byte order mark", put(config, "\xEF\xBB\xBF{}"), config, "", "byte order mark"},
      {"config.json is huge", [](const Scratch& s) { fs::resize_file(s / "config.json", 1ull << 40); },
       config, "", "at most"},
      {"config.json is a git-LFS pointer", put(config, kPointer), config, "", "git-LFS pointer"},
      {"the index is a git-LFS pointer", put(index, kPointer), index, "", "git-LFS pointer"},
      {"the index is a FIFO", replaced(index, fifo), index, "", "not a regular file"},
      {"the index is a directory", replaced(index, directory), index, "", "is a directory"},
      {"the index is a link to itself", replaced(index, loop), index, "", "levels of symbolic links"},
      {"the index is empty", put(index, ""), index, "", "not valid JSON"},
      {"the index is a list", put(index, "[]"), index, "", "is an array"},
      {"the index is text", put(index, R"("weight_map")"), index, "", "is a string"},
      {"the index is nested deeply", put(index, R"({"metadata":)" + deep), index, "", "nested deeper"},
      {"the index lacks weight_map", put(index, R"({"metadata":{"weight_map":{"a":"one.safetensors"}}})"),
       index, "", "no \"weight_map\""},
      {"weight_map twice", put(index, R"({"weight_map":{"a":"x"},"weight_map":{}})"), index, "",
       "\"weight_map\" appears twice"},
      {"weight_map is a list", put(index, R"({"weight_map":["a"]})"), index, "",
       "\"weight_map\" is an array"},
      {"weight_map is a string", put(index, R"({"weight_map":"a"})"), index, "",
       "\"weight_map\" is a string"},
      {"weight_map is null", put(index, R"({"weight_map":null})"), index, "", "\"weight_map\" is null"},
      {"weight_map is empty", put(index, R"({"weight_map":{}})"), index, "", "lists no tensor"},
      {"a shard name is a number", put(index, R"({"weight_map":{"a":1}})"), index, "a", "is a number"},
      {"a shard name is an object", put(index, R"({"weight_map":{"a":{"b":"c"}}})"), index, "a",
       "is an object"},
      {"a shard name is a list", put(index, R"({"weight_map":{"a":["b"]}})"), index, "a", "is an array"},
      {"a shard name is null", put(index, R"({"weight_map":{"a":null}})"), index, "a", "is null"},
      {"a tensor is listed twice",
       put(index, R"({"weight_map":{"a":"one.safetensors","c":"two.safetensors","a":"two.safetensors"}})"),
       index, "a", "listed twice"},
      {"an absolute shard name", list("/dev/zero"), index, "a", "'/dev/zero' leaves"},
      {"a shard above the directory", list("../one.safetensors"), index, "a", "leaves"},
      {"a shard above the directory, in the middle", list("x/../../one.safetensors"), index, "a", "leaves"},
      {"a shard name that ends in ..", list("x/.."), index, "a", "leaves"},
      {"an empty shard name", list(""), index, "a", "leaves"},
      {"a shard name with a NUL", put(index, R"({"weight_map":{"a":"one.safetensors\u0000x"}})"), index, "a",
       "leaves"},
      {"a shard that is missing", replaced(kTwo, nothing), kTwo, "",
       "listed in model.safetensors.index.json but missing"},
      {"a shard that is a link to nothing",
       replaced(kTwo, [](const std::string& path) { fs::create_symlink("gone", path); }), kTwo, "",
       "but missing"},
      {"a shard that is a FIFO", replaced(kTwo, fifo), kTwo, "", "not a regular file"},
      {"a shard that is a directory", replaced(kTwo, directory), kTwo, "", "is a directory"},
      {"a shard that is a link to itself", replaced(kTwo, loop), kTwo, "", "levels of symbolic links"},
      {"a shard that is a device", replaced(kTwo, device), kTwo, "", "not a regular file"},
      {"a shard that is a git-LFS pointer", put(kTwo, kPointer), kTwo, "", "git-LFS pointer"},
      {"a shard that is no safetensors file", put(kTwo, "PK\3\4 a zip archive"), kTwo, "",
       "is this a safetensors file"},
      {"a listed shard that is gone, and another set that is not whole",
       [=](const Scratch& s) {
         fs::remove(s / kOne);
         fs::copy(s / kTwo, s / "other.safetensors");
       },
       kOne, "", "but missing"},
      {"no index, and no shard",
       [=](const Scratch& s) {
         for (auto& f : {index, kOne, kTwo}) fs::remove(s / f);
       },
       "", "", "neither model.safetensors.index.json nor a *.safetensors"},
      {"no index, and a tensor in two files",
       [=](const Scratch& s) {
         fs::remove(s / index);
         fs::copy(s / kTwo, s / "zwei.safetensors");
       },
       "zwei.safetensors", "c", "is in two.safetensors too"},
      {"no index, and a FIFO among the files",
       [=](const Scratch& s) {
         fs::remove(s / index);
         fifo(s / "x.safetensors");
       },
       "x.safetensors", "", "not a regular file"},
  };
}

}  // namespace

TEST_CASE("every golden checkpoint opens, with any number of threads") {
  int directories = 0;
  for (const auto& entry : fs::directory_iterator(SOURCE_DIR "/tests/golden")) {
    const std::string directory = entry.path() / "checkpoint";
    if (!fs::exists(directory)) continue;
    CAPTURE(directory);
    ++directories;
    for (const int threads : {1, 8}) {
      Context context;
      context.threads = threads;
      const Checkpoint checkpoint = Checkpoint::open(context, directory);
      CHECK(checkpoint.has_index());
      CHECK(checkpoint.shards().size() >= 2);
      CHECK(!checkpoint.tensors().empty());
      for (const Tensor& tensor : checkpoint.tensors()) CHECK(checkpoint.find(tensor.name) == &tensor);
      CHECK(checkpoint.find("nothing of that name") == nullptr);
    }
  }
  CHECK(directories == 8);
}

TEST_CASE("each way in which a directory can be wrong is refused, and never waited for") {
  const Scratch scratch;
  int refused = 0;
  for (const Broken& row : broken_directories()) {
    CAPTURE(row.what);
    put_good(scratch);
    REQUIRE_FALSE(refusal(scratch));
    row.make(scratch);
    const std::optional<Error> error = refusal(scratch);
    REQUIRE(error);
    CAPTURE(error->what());
    CHECK(error->code() == ErrorCode::failed);
    CHECK(error->path() == (row.path.empty() ? scratch.path() : scratch / row.path));
    CHECK(error->tensor() == row.tensor);
    CHECK(error->reason().find(row.reason) != std::string::npos);
    ++refused;
  }
  MESSAGE(refused << " broken directories refused");
}

TEST_CASE("a path that is not a directory is refused") {
  const Scratch scratch;
  put_file(scratch / "file", "");
  CHECK_THROWS_WITH_AS(Checkpoint::open(Context{}, scratch / "gone"), doctest::Contains("no such directory"),
                       Error);
  CHECK_THROWS_WITH_AS(Checkpoint::open(Context{}, scratch / "file"), doctest::Contains("is not a directory"),
                       Error);
}

TEST_CASE("only shards that the index lists are read, and all of what they hold") {
  const Scratch scratch;
  put_good(scratch);
  put_file(scratch / "broken.safetensors", "");  // not listed: not opened
  put_file(scratch / std::string(kIndexName), index_json({{"b", kOne}, {"c", kTwo}}));
  const Checkpoint checkpoint = open_with(scratch);
  CHECK(names(checkpoint) == std::vector<std::string>{"a", "b", "c"});
  CHECK(checkpoint.absent().empty());
  REQUIRE(checkpoint.shards().size() == 2);
  CHECK(checkpoint.shards()[0].name == kOne);
  CHECK(checkpoint.shards()[0].path == scratch / kOne);
  CHECK(checkpoint.shards()[0].file_bytes == fs::file_size(scratch / kOne));
  CHECK(checkpoint.shard_path(*checkpoint.find("c")) == scratch / kTwo);
}

TEST_CASE("where two shards hold a tensor, the index says which one counts") {
  const Scratch scratch;
  put_good(scratch);
  put_safetensors(scratch / kTwo, {{"a", "U8", {9}}, {"c", "BF16", {1, 2}}});
  CHECK(open_with(scratch).find("a")->size == 3);
  put_file(scratch / std::string(kIndexName), index_json({{"a", kTwo}, {"b", kOne}, {"c", kTwo}}));
  CHECK(open_with(scratch).find("a")->size == 9);
}

TEST_CASE("an index that disagrees with the shards is a warning, not an error") {
  class Said : public Progress {
   public:
    void begin(std::string_view, std::uint64_t) override {}
    void advance(std::uint64_t) override {}
    void end() override {}
    void say(std::string_view line) override { all.append(line).append("\n"); }
    std::string all;
  };
  const Scratch scratch;
  const auto open = [&](std::string& said) {
    Said progress;
    const Context context{.progress = progress};
    Checkpoint checkpoint = Checkpoint::open(context, scratch.path());
    said = progress.all;
    return checkpoint;
  };
  std::string said;
  SUBCASE("a tensor that no shard holds") {
    put_good(scratch);
    put_file(scratch / std::string(kIndexName),
             index_json({{"a", kOne}, {"b", kOne}, {"c", kTwo}, {"x", kTwo}, {"y", kTwo}}));
    const Checkpoint checkpoint = open(said);
    CHECK(checkpoint.absent() == std::vector<std::string>{"x", "y"});
    CHECK(said.find("2 tensors that model.safetensors.index.json lists are in no shard") != said.npos);
  }
  SUBCASE("a tensor that is in another shard, and one that is not listed") {
    put_good(scratch);
    put_file(scratch / std::string(kIndexName), index_json({{"a", kTwo}, {"b", kOne}}));
    const Checkpoint checkpoint = open(said);
    CHECK(names(checkpoint) == std::vector<std::string>{"a", "b", "c"});
    CHECK(checkpoint.shard_path(*checkpoint.find("a")) == scratch / kOne);
    CHECK(said.find("1 tensors are in another shard") != said.npos);
    CHECK(said.find("1 tensors are in shards") != said.npos);
  }
  SUBCASE("of another set of files, beside one that is whole") {
    put_good(scratch);
    put_file(scratch / std::string(kIndexName), index_json({{"a", "model-00001-of-00009.safetensors"}}));
    fs::rename(scratch / kOne, scratch / "model.safetensors");
    const Checkpoint checkpoint = open(said);
    CHECK(names(checkpoint) == std::vector<std::string>{"a", "b"});
    CHECK_FALSE(checkpoint.has_index());
    CHECK(said.find("model.safetensors is used instead") != said.npos);
  }
}

TEST_CASE("a shard that is replaced or written to is noticed") {
  const Scratch scratch;
  put_good(scratch);
  const Checkpoint checkpoint = open_with(scratch);
  checkpoint.refuse_changed(posix());
  const fs::path path = scratch / kOne;
  SUBCASE("another time") {
    fs::last_write_time(path, fs::last_write_time(path) - std::chrono::hours(1));
  }
  SUBCASE("another file with the same size and time") {
    fs::copy(path, scratch / "copy");
    fs::last_write_time(scratch / "copy", fs::last_write_time(path));
    fs::rename(scratch / "copy", path);
  }
  SUBCASE("gone") {
    fs::remove(path);
  }
  CHECK_THROWS_WITH_AS(checkpoint.refuse_changed(posix()),
                       doctest::Contains("changed since the start of this run"), Error);
}

TEST_CASE("config.json is read as Python reads it") {
  const Scratch scratch;
  put_good(scratch);
  put_file(scratch / "config.json",
           R"({"a": [0.0, Infinity, -Infinity, NaN], "b": 1, "b": 2, "s": "NaN \" Infinity"})");
  const Checkpoint checkpoint = open_with(scratch);
  CHECK(checkpoint.config()["a"] == Json({0.0, "Infinity", "-Infinity", "NaN"}));
  CHECK(checkpoint.config()["b"] == 2);
  CHECK(checkpoint.config()["s"] == "NaN \" Infinity");
  put_file(scratch / "config.json", R"({"a": NaN, "b": })");
  const std::optional<Error> error = refusal(scratch);
  REQUIRE(error);
  CHECK(error->offset() == 17);  // counted from 1, as the parser does
}

TEST_CASE("without an index, every safetensors file of the directory counts") {
  const Scratch scratch;
  put_good(scratch);
  fs::remove(scratch / std::string(kIndexName));
  put_file(scratch / "._one.safetensors", "what an archiver left");
  put_file(scratch / "model.safetensors.bak", "");
  const Checkpoint checkpoint = open_with(scratch);
  CHECK_FALSE(checkpoint.has_index());
  CHECK(names(checkpoint) == std::vector<std::string>{"a", "b", "c"});
}

TEST_CASE("links are followed, as in a Hugging Face cache, and shards may be in directories") {
  const Scratch scratch;
  put_good(scratch);
  const Scratch snapshot;
  fs::create_directory(snapshot / "deep");
  for (const auto& name : {std::string("config.json"), kOne})
    fs::create_symlink(scratch / name, snapshot / name);
  fs::create_symlink(scratch / kTwo, snapshot / ("deep/" + kTwo));
  put_file(snapshot / std::string(kIndexName), index_json({{"a", kOne}, {"c", "deep/" + kTwo}}));
  const Checkpoint checkpoint = open_with(snapshot);
  CHECK(checkpoint.find("c") != nullptr);
  CHECK(checkpoint.shards()[0].name == "deep/" + kTwo);
}

TEST_CASE("tensors are sorted by shard and place, for any order of the index") {
  const Scratch scratch;
  put_good(scratch);
  put_file(scratch / std::string(kIndexName),
           fmt::format(
               R"({{"weight_map":{{"c":"{1}","b":"{0}","a":"{0}"}},"metadata":{{"total_size":[1,{{}}]}}}})",
               kOne, kTwo));
  for (const int threads : {1, 2, 8})
    CHECK(names(open_with(scratch, threads)) == std::vector<std::string>{"a", "b", "c"});
}

TEST_CASE("a stop ends the opening") {
  const Scratch scratch;
  put_good(scratch);
  Stop stop;
  stop.request(2);
  Context context;
  context.stop = &stop;
  CHECK_THROWS_AS(Checkpoint::open(context, scratch.path()), Error);
}

TEST_CASE("config values are found nested or at the top") {
  const Json config = Json::parse(R"({"a":1,"b":2,"n":null,"text_config":{"a":3,"b":null,"c":4}})");
  CHECK(config_value(config, "a") == 3);
  CHECK(config_value(config, "b") == 2);
  CHECK(config_value(config, "c") == 4);
  CHECK(config_value(config, "n").is_null());
  CHECK(config_value(config, "x").is_null());
  CHECK(config_value(Json::parse(R"({"a":1,"text_config":"none"})"), "a") == 1);
  CHECK(config_value(Json(5), "a").is_null());
}
