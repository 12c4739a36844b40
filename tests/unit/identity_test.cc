#include "checkpoint/identity.h"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "base/file.h"
#include "base/json.h"
#include "base/user_cache.h"
#include "checkpoint/known_digests.h"
#include "scratch.h"

using namespace planesmith;

namespace {

std::optional<Sha256Digest> digest_of(const Json& text) {
  if (text.is_null()) return std::nullopt;
  Sha256 sha;
  sha.update(text.get<std::string>());
  return sha.finish();
}

// An environment variable that has another value for a while.
class Variable {
 public:
  Variable(const char* name, const char* value) : name_(name) {
    if (const char* old = getenv(name)) old_ = old;
    value == nullptr ? unsetenv(name) : setenv(name, value, 1);
  }
  Variable(const Variable&) = delete;
  ~Variable() { old_ ? setenv(name_, old_->c_str(), 1) : unsetenv(name_); }

 private:
  const char* name_;
  std::optional<std::string> old_;
};

// A checkpoint directory with two shards, and a user cache of its own.
struct Directory {
  Scratch scratch;
  std::string path = scratch / "model", cache = scratch / "xdg";
  Context context;
  const Variable xdg{"XDG_CACHE_HOME", cache.c_str()};

  Directory() {
    make_dirs(posix(), path);
    put("config.json", "{}");
    put("a.safetensors", "aaa");
    put("b.safetensors", "bb");
  }
  void put(const std::string& name, const std::string& text) {
    make_dirs(posix(), parent_of(join(path, name)));
    write_atomically(posix(), join(path, name), text);
  }
  ContentId content(bool recompute = false) { return content_id(context, path, recompute); }
};

// What the content id is by definition, from digests.
std::string by_definition(const Json& files) {
  return sha256_hex(compact({{"files", files}, {"scheme", "content-sha256-v1"}}));
}

std::string reason_of(const std::function<void()>& work) {
  try {
    work();
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

}  // namespace

TEST_CASE("engine ids of directories with given stats") {
  const Json cases = read_json(posix(), SOURCE_DIR "/tests/golden/ckpt_id.json");
  REQUIRE(cases.size() >= 6);
  for (const Json& c : cases) {
    CheckpointStats stats{.config = digest_of(c["config_json"]),
                          .safetensors_index = digest_of(c["index_json"]),
                          .bin_index = digest_of(c["pytorch_index_json"]),
                          .shards = {}};
    for (const auto& [name, shard] : c["shards"].items())
      stats.shards.insert(
          stats.shards.begin(),  // the order they come in must not matter
          {name, shard["size"], shard["mtime_ns"], shard["ctime_ns"], shard["resolved_blob"]});
    const std::string revision = c["revision"].is_null() ? "" : c["revision"].get<std::string>();
    CHECK(engine_id(c["model"].get<std::string>(), revision, stats) == c["ckpt_id"].get<std::string>());
  }
}

TEST_CASE("shard names sort and print as in Python") {
  // U+FFFD sorts below U+1F600 though its UTF-16 form does not; a byte that is no UTF-8 is U+DCFF.
  const char* names[] = {"a", "\xff", "\xEF\xBF\xBD", "\xF0\x9F\x98\x80"};
  const char* printed[] = {"a", "\\udcff", "\\ufffd", "\\ud83d\\ude00"};
  Sha256 expected;
  expected.update(std::string_view("moe-w2-checkpoint-stat-v2\0/m\0", 29));
  CheckpointStats stats;
  for (int i = 0; i < 4; ++i) {
    stats.shards.insert(stats.shards.begin(), ShardStat{names[i], 1, 2, -3, "q\"\\\n\x01\x7f"});
    expected.update(
        fmt::format("{{\"ctime_ns\":-3,\"mtime_ns\":2,\"name\":\"{}\",\"resolved_blob\":"
                    "\"q\\\"\\\\\\n\\u0001\\u007f\",\"size\":1}}",
                    printed[i]));
  }
  CHECK(engine_id("/m", "", stats) == hex(expected.finish()));
}

TEST_CASE("a model that is not a local directory needs its commit") {
  const std::string commit = "9e165c30e2704aec5d9d593cce3eebd58bbef1cb";
  const std::string head("moe-w2-checkpoint-stat-v2\0org/model\0", 36);
  CHECK(engine_id_of_remote("org/model", commit) == sha256_hex(head + commit));
  for (const char* revision :
       {"", "main", "9e165c30e2704aec5d9d593cce3eebd58bbef1c", "9e165c30e2704aec5d9d593cce3eebd58bbef1cg"})
    CHECK_THROWS_AS(engine_id_of_remote("org/model", revision), Error);
}

TEST_CASE("what a directory shows") {
  Directory directory;
  CheckpointStats stats = read_checkpoint_stats(directory.context, directory.path);
  CHECK(stats.config == digest_of("{}"));
  CHECK(stats.shards.size() == 2);
  directory.put("x.bin", "x");
  directory.put("notes.txt", "x");
  directory.put("d.safetensors/inner", "a directory is not a shard");
  CHECK(read_checkpoint_stats(directory.context, directory.path).shards.size() == 3);

  // With an index, what it lists and nothing else; with both, what either lists. A link's target counts.
  directory.put("model.safetensors.index.json",
                R"({"weight_map": {"t": "sub/l.safetensors", "u": "a.safetensors"}})");
  directory.put("blobs/target", "four");
  make_dirs(posix(), join(directory.path, "sub"));
  REQUIRE(symlink("../blobs/target", join(directory.path, "sub/l.safetensors").c_str()) == 0);
  stats = read_checkpoint_stats(directory.context, directory.path);
  REQUIRE(stats.shards.size() == 2);
  CHECK(stats.shards[1].name == "sub/l.safetensors");
  CHECK(stats.shards[1].size == 4);
  CHECK(stats.shards[1].resolved_blob == "target");
  directory.put("pytorch_model.bin.index.json", R"({"weight_map": {"t": "x.bin", "u": "a.safetensors"}})");
  CHECK(read_checkpoint_stats(directory.context, directory.path).shards.size() == 3);

  unlink(join(directory.path, "x.bin").c_str());
  CHECK(reason_of([&] {
          read_checkpoint_stats(directory.context, directory.path);
        }).find("x.bin: is listed") != std::string::npos);
  CHECK_THROWS_AS(read_checkpoint_stats(directory.context, join(directory.path, "blobs")), Error);
  CHECK_THROWS_AS(read_checkpoint_stats(directory.context, join(directory.path, "config.json")), Error);
}

TEST_CASE("the content id is what its definition says, for any number of threads") {
  Directory directory;
  directory.put("big.bin", std::string(3 * 1024 * 1024 + 17, 'x'));
  const Json files = {{"config.json", sha256_hex("{}")},
                      {"a.safetensors", sha256_hex("aaa")},
                      {"b.safetensors", sha256_hex("bb")},
                      {"big.bin", sha256_hex(std::string(3 * 1024 * 1024 + 17, 'x'))}};
  for (const int threads : {1, 4}) {
    directory.context.threads = threads;
    CHECK(directory.content(true).id == by_definition(files));
  }
}

TEST_CASE("files of an index that the directory lacks do not count if another set is complete") {
  Directory directory;
  const std::string bin_index = R"({"weight_map": {"t": "gone.bin"}})";
  directory.put("pytorch_model.bin.index.json", bin_index);
  Json files = {{"config.json", sha256_hex("{}")},
                {"pytorch_model.bin.index.json", sha256_hex(bin_index)},
                {"a.safetensors", sha256_hex("aaa")},
                {"b.safetensors", sha256_hex("bb")}};
  CHECK(directory.content(true).id == by_definition(files));
  const std::string index = R"({"weight_map": {"t": "a.safetensors"}})";
  directory.put("model.safetensors.index.json", index);
  files["model.safetensors.index.json"] = sha256_hex(index);
  files.erase("b.safetensors");
  CHECK(directory.content(true).id == by_definition(files));
  const std::string old = R"({"weight_map": {"t": "model-00001-of-00002.safetensors"}})";
  directory.put("model.safetensors.index.json", old);
  CHECK_THROWS_AS(directory.content(true), Error);
  directory.put("model.safetensors", "whole");
  files["model.safetensors.index.json"] = sha256_hex(old);
  files.erase("a.safetensors");
  files["model.safetensors"] = sha256_hex("whole");
  CHECK(directory.content(true).id == by_definition(files));
}

TEST_CASE("digests of an earlier run hold while size, times and inode do") {
  Directory directory;
  const ContentId first = directory.content();
  CHECK(first.bytes_hashed == 5);
  ContentId again = directory.content();
  CHECK(again.id == first.id);
  CHECK(again.bytes_hashed == 0);
  CHECK(again.bytes_known == 5);
  CHECK(directory.content(true).bytes_hashed == 5);

  // The same size and modification time do not hide a change.
  struct stat before {};
  REQUIRE(stat(join(directory.path, "a.safetensors").c_str(), &before) == 0);
  directory.put("a.safetensors", "AAA");
  const struct timespec times[2] = {before.st_atim, before.st_mtim};
  REQUIRE(utimensat(AT_FDCWD, join(directory.path, "a.safetensors").c_str(), times, 0) == 0);
  again = directory.content();
  CHECK(again.bytes_hashed == 3);
  CHECK(again.sha256["a.safetensors"] == sha256_hex("AAA"));

  // Anything else in the user's cache is ignored.
  for (const char* group : {"sha256"})
    for (const std::string& name : list_dir(posix(), join(user_cache_directory(), group)))
      write_atomically(posix(), join(user_cache_directory(), std::string(group) + "/" + name),
                       "{\"file\": 3");
  CHECK(directory.content().id == again.id);
  REQUIRE(::system(("rm -rf '" + directory.cache + "'; touch '" + directory.cache + "'").c_str()) == 0);
  CHECK(directory.content().id == again.id);  // no cache can be kept there
  const Variable xdg("XDG_CACHE_HOME", nullptr), home("HOME", directory.cache.c_str());
  CHECK(directory.content().id == again.id);
}

TEST_CASE("digests that Hugging Face's tools left are used") {
  Directory directory;
  const std::string told(64, '7');
  SUBCASE("names of blobs") {
    directory.put("../hub/blobs/" + told, "not what the name says");
    unlink(join(directory.path, "a.safetensors").c_str());
    REQUIRE(symlink(("../hub/blobs/" + told).c_str(), join(directory.path, "a.safetensors").c_str()) == 0);
    CHECK(directory.content().sha256["a.safetensors"] == told);
    CHECK(directory.content().by_download == std::vector<std::string>{"a.safetensors"});
    CHECK(directory.content(true).sha256["a.safetensors"] == sha256_hex("not what the name says"));
    CHECK(directory.content(true).by_download.empty());
    const Identity identity = resolve_identity(directory.context, {}, directory.path);
    CHECK(identity.by_download);
    CHECK(identity.how.find("were not verified") != std::string::npos);
  }
  SUBCASE("names of blobs that were cut short") {
    unlink(join(directory.path, "a.safetensors").c_str());
    REQUIRE(symlink(("../hub/blobs/" + told).c_str(), join(directory.path, "a.safetensors").c_str()) == 0);
    const std::string header = R"({"t":{"dtype":"U8","shape":[4],"data_offsets":[0,4]}})";
    const std::string begin = static_cast<char>(header.size()) + std::string(7, '\0') + header;
    directory.put("../hub/blobs/" + told, begin + "data");
    CHECK(directory.content().sha256["a.safetensors"] == told);
    for (const std::string& text : {begin + "dat", begin, begin.substr(0, 20), std::string()}) {
      directory.put("../hub/blobs/" + told, text);
      CHECK(directory.content().sha256["a.safetensors"] == sha256_hex(text));
      CHECK(directory.content().by_download.empty());
    }
  }
  SUBCASE("names of blobs that belong to another user") {
    directory.put("../hub/blobs/" + told, "abc");
    unlink(join(directory.path, "a.safetensors").c_str());
    REQUIRE(symlink(("../hub/blobs/" + told).c_str(), join(directory.path, "a.safetensors").c_str()) == 0);
    if (chown(join(directory.path, "../hub/blobs/" + told).c_str(), 65534, 65534) != 0) {
      MESSAGE("SKIPPED: files cannot be given away here");
      return;
    }
    CHECK(directory.content().sha256["a.safetensors"] == sha256_hex("abc"));
    CHECK(directory.content().by_download.empty());
  }
  SUBCASE("a file elsewhere that happens to have such a name is not trusted") {
    directory.put("other/" + told, "abc");
    unlink(join(directory.path, "a.safetensors").c_str());
    REQUIRE(symlink(("other/" + told).c_str(), join(directory.path, "a.safetensors").c_str()) == 0);
    CHECK(directory.content().sha256["a.safetensors"] == sha256_hex("abc"));
  }
  SUBCASE("metadata of a download into a local directory") {
    const std::string metadata = ".cache/huggingface/download/a.safetensors.metadata";
    const std::string commit(40, 'c');
    // Downloaded a while ago; times in the future are not trusted.
    const std::string shard = join(directory.path, "a.safetensors");
    struct stat st {};
    REQUIRE(stat(shard.c_str(), &st) == 0);
    const struct timespec earlier[2] = {{st.st_atim.tv_sec - 100, 0}, {st.st_mtim.tv_sec - 100, 500'000'000}};
    REQUIRE(utimensat(AT_FDCWD, shard.c_str(), earlier, 0) == 0);
    REQUIRE(stat(shard.c_str(), &st) == 0);
    const double modified =
        static_cast<double>(st.st_mtim.tv_sec) + 1e-9 * static_cast<double>(st.st_mtim.tv_nsec);
    const auto digest_with = [&](const std::string& text) {
      directory.put(metadata, text);
      REQUIRE(::system(("rm -rf '" + directory.cache + "'").c_str()) == 0);
      return directory.content().sha256["a.safetensors"];
    };
    CHECK(digest_with(fmt::format("{}\n{}\n{}\n", commit, told, modified + 1)) == told);
    CHECK(digest_with(fmt::format("{}\n{}\n{}\n", commit, told, modified)) == told);
    const std::string real = sha256_hex("aaa");
    CHECK(digest_with(fmt::format("{}\n{}\n{}\n", commit, told, modified - .5)) == real);  // modified since
    CHECK(digest_with(fmt::format("{}\n{}\n{}\n", commit, std::string(40, '7'), modified + 1)) ==
          real);                                                                              // a git blob
    CHECK(digest_with(fmt::format("{}\n{}\n{}\n", commit, told, modified + 86400)) == real);  // to come
    CHECK(digest_with(fmt::format("{}\n{}\n1e300\n", commit, told)) == real);
    CHECK(digest_with(fmt::format("{}\n{}\n", commit, told)) == real);
    CHECK(digest_with(fmt::format("{}\n{}\nsoon\n", commit, told)) == real);
    CHECK(digest_with(fmt::format("{}\n{}\nnan\n", commit, told)) == real);
    CHECK(digest_with("") == real);
    directory.put(metadata, fmt::format("{}\n{}\n{}\n", commit, told, modified + 1));
    CHECK(directory.content(true).sha256["a.safetensors"] == real);
  }
}

TEST_CASE("the identity from the command line") {
  Directory directory;
  const auto resolve = [&](IdentityOptions options) {
    return resolve_identity(directory.context, options, directory.path).id;
  };
  CHECK(resolve({.pin = "any \"string\", é"}) == "any \"string\", é");
  CHECK(resolve({.served_path = "/model", .revision = "v1"}) ==
        engine_id("/model", "v1", read_checkpoint_stats(directory.context, directory.path)));
  CHECK(resolve({}) == directory.content().id);
  CHECK(resolve_identity(directory.context, {.served_path = "org/m", .revision = std::string(40, 'a')},
                         "/nowhere")
            .id == engine_id_of_remote("org/m", std::string(40, 'a')));
  for (const IdentityOptions& wrong :
       {IdentityOptions{.pin = ""}, IdentityOptions{.pin = "\xff"},
        IdentityOptions{.pin = {}, .revision = "v1"}, IdentityOptions{.pin = "a", .served_path = "/model"}}) {
    try {
      resolve(wrong);
      FAIL_CHECK("accepted");
    } catch (const Error& error) {
      CHECK(error.code() == ErrorCode::usage);
    }
  }
}

TEST_CASE("memory and interruption") {
  Directory directory;
  directory.context.memory = 1000;
  CHECK(reason_of([&] { directory.content(); }).find("smallest that works") != std::string::npos);
  Directory other;
  Stop stop;
  stop.request(2);
  other.context.stop = &stop;
  CHECK_THROWS_AS(other.content(), Error);
}
