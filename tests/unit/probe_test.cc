// Each way in which a planes cache can be wrong, one at a time, on copies of what the engine wrote.
#include "store/probe.h"

#include <doctest/doctest.h>
#include <errno.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <string>
#include <tuple>

#include "base/error.h"
#include "served.h"
#include "verify/report.h"

namespace fs = std::filesystem;

TEST_CASE("what the engine wrote is a hit in every layer, part and pack") {
  for (const char* model :
       {"ds4-mini", "fp8-edge", "glm-fp8-mini", "glm-nvfp4-mini", "kimi-nvfp4-mini", "nvfp4-edge"}) {
    CAPTURE(model);
    const BootVerdict verdict = Served(model).check();
    CHECK(misses(verdict) == Misses{});
    CHECK(verdict.hit());
    CHECK(verdict.boot.ckpt_id == "golden-" + std::string(model));
    CHECK(verdict.boot.fp4 == format::Fp4Tier::nibble);
    REQUIRE(verdict.caches.size() == 1);
    CHECK(verdict.packs.size() == 3);
    CHECK(verdict.found.empty());
    CHECK(verdict.notes.empty());
    for (const LayerVerdict& layer : verdict.caches[0].layers) CHECK(layer.parts.size() == 6);
  }
  const BootVerdict glm = Served().check();
  REQUIRE(glm.caches[0].layers.size() == 2);  // the cache goes by layer index, the packs by layer key
  CHECK(glm.caches[0].layers[0].index == 1);
  CHECK(glm.packs[0].layers[0].key == 0);
}

TEST_CASE("a planes cache with one thing wrong") {
  const Served served;
  const std::string meta = served.directory + "/meta.json", part = served.directory + "/layer2.sc13.bin";
  const std::uint64_t bytes = fs::file_size(part);

  SUBCASE("meta.json is missing") {
    fs::remove(meta);
    CHECK(only_miss(served.check({.ckpt_id = "golden-glm-nvfp4-mini"})) == "cache: meta.json is missing");
  }
  SUBCASE("meta.json is not JSON") {
    put_file(meta, "{\"version\": 2,");
    CHECK(has(only_miss(served.check({.ckpt_id = "golden-glm-nvfp4-mini"})),
              "cache: meta.json is unreadable: not valid JSON"));
  }
  SUBCASE("meta.json is a directory") {
    fs::remove(meta);
    fs::create_directory(meta);
    CHECK(has(only_miss(served.check({.ckpt_id = "golden-glm-nvfp4-mini"})),
              "cache: meta.json is unreadable: is a directory"));
  }
  SUBCASE("one value of meta.json") {
    const std::tuple<const char*, const char*, const char*> values[] = {
        {"\"zero_mode\": \"auto\"", "\"zero_mode\": \"alt\"",
         "differs in zero_mode: cache has \"alt\", engine would ask \"auto\""},
        {"\"version\": 2", "\"version\": 3", "differs in version: cache has 3, engine would ask 2"},
        {"golden-glm", "another",
         "differs in ckpt_id: cache has \"another-nvfp4-mini\", engine would ask \"golden-glm-nvfp4-mini\""},
        {"\"world\": 1", "\"world\": 2", "differs in world: cache has 2, engine would ask 1"},
        {"\"rank\": 0", "\"rank\": 1", "differs in rank: cache has 1, engine would ask 0"},
        {"a32-v2", "a32-v1",
         "differs in quantizer_abi: cache has \"tsym4-e8m0-fragmajor-a32-v1\", engine would ask "
         "\"tsym4-e8m0-fragmajor-a32-v2\""},
        {"\"fp4_split\": false", "\"fp4_split\": \"w4q\"",
         "differs in fp4_split: cache has \"w4q\", engine would ask false"},
        {", \"rank\": 0", "", "lacks rank"},
        {"\"rank\": 0", "\"rank\": 0, \"made_by\": \"x\"",
         "has made_by, one key more than the engine writes"}};
    for (const auto& [what, by, reason] : values) {
      const auto& this_by = by;  // clang 14 cannot capture structured bindings
      CAPTURE(this_by);
      const std::string before = file_contents(meta);
      replace_in(meta, what, by);
      const BootVerdict verdict = served.check({.ckpt_id = "golden-glm-nvfp4-mini"});
      CHECK(only_miss(verdict) == std::string("cache: meta.json ") + reason);
      for (const LayerVerdict& layer : verdict.caches[0].layers) CHECK_FALSE(layer.hit());
      put_file(meta, before);
    }
  }
  SUBCASE("the order and spacing of meta.json do not matter") {
    put_file(meta, Json::parse(file_contents(meta)).dump(4));
    CHECK(served.check().hit());
  }
  SUBCASE("a part is missing") {
    fs::remove(part);
    CHECK(only_miss(served.check()) == "layer 2 sc13: is missing");
  }
  SUBCASE("a part is short") {
    fs::resize_file(part, bytes - 4);
    CHECK(only_miss(served.check()) ==
          fmt::format("layer 2 sc13: is 4 bytes short: {} bytes, expected {}", bytes - 4, bytes));
  }
  SUBCASE("a part is long") {
    fs::resize_file(part, bytes + 1);
    CHECK(only_miss(served.check()) ==
          fmt::format("layer 2 sc13: is 1 bytes too long: {} bytes, expected {}", bytes + 1, bytes));
  }
  SUBCASE("a part is something else") {
    fs::remove(part);
    REQUIRE(::mkfifo(part.c_str(), 0666) == 0);
    CHECK(only_miss(served.check()) == "layer 2 sc13: is not a regular file");
  }
  SUBCASE("a part is a directory") {
    fs::remove(part);
    fs::create_directory(part);
    CHECK(only_miss(served.check()) == "layer 2 sc13: is not a regular file");
  }
  SUBCASE("a part is a broken link") {
    fs::remove(part);
    fs::create_symlink("nowhere", part);
    CHECK(only_miss(served.check()) == "layer 2 sc13: is missing");
  }
  SUBCASE("a part is a link to what it should be") {
    fs::rename(part, served.root + "/elsewhere");
    fs::create_symlink(served.root + "/elsewhere", part);
    CHECK(served.check().hit());
  }
  SUBCASE("the FP4 planes are missing, which matters only if they are asked for") {
    for (const char* name : {"layer1.fp13.bin", "layer1.fp2.bin", "layer2.fp13.bin", "layer2.fp2.bin"})
      fs::remove(served.directory + "/" + name);
    CHECK(served.check().hit());
    CHECK(misses(served.check({.fp4 = format::Fp4Tier::nibble})) ==
          Misses{"layer 1 fp13: is missing", "layer 1 fp2: is missing", "layer 2 fp13: is missing",
                 "layer 2 fp2: is missing"});
  }
  SUBCASE("the split mode was not built") {
    const std::string miss =
        misses(served.check({.fp4 = format::Fp4Tier::quintal, .tiers = std::vector<format::Tier>{}})).at(0);
    CHECK(miss ==
          "cache: the directory is not there; the nearest one's meta.json differs in fp4_split: cache has "
          "false, engine would ask \"w4q\"");
  }
  SUBCASE("meta.json of a cache in split mode is damaged, and packs tell the identity") {
    const format::CacheMeta split{"golden-glm-nvfp4-mini", 1, 0, format::ZeroMode::automatic, true};
    const std::string directory = served.root + "/" + format::cache_directory(split);
    fs::create_directories(parent_of(directory));
    fs::rename(served.directory, directory);
    put_file(directory + "/meta.json", "{");
    CHECK(has(only_miss(served.check()), "cache: meta.json is unreadable: not valid JSON"));
  }
  SUBCASE("another zero mode is asked for") {
    const BootVerdict verdict = served.check({.zero_mode = format::ZeroMode::alt});
    CHECK(misses(verdict).at(0) ==
          "cache: the directory is not there; the nearest one's meta.json differs in zero_mode: cache has "
          "\"auto\", engine would ask \"alt\"");
    CHECK(verdict.found == Misses{"'golden-glm-nvfp4-mini' (world 1, zero mode auto)"});
  }
  SUBCASE("another identity is asked for") {
    const BootVerdict verdict = served.check({.ckpt_id = "mine"});
    CHECK(has(misses(verdict).at(0),
              "it would match only with the pin VLLM_MOE_W2_CKPT_ID=golden-glm-nvfp4-mini"));
    CHECK(verdict.found == Misses{"'golden-glm-nvfp4-mini' (world 1, zero mode auto)"});
    CHECK(misses(verdict).size() == 4);
    CHECK(emptied(verdict).empty());  // the engine would start packs of its own and leave these
    CHECK(has(to_text(verdict), "identities found there:\n  'golden-glm-nvfp4-mini'"));
  }
  SUBCASE("the directory carries another key") {
    const std::string wrong = served.root + "/v2/00000000000000000000";
    fs::rename(parent_of(served.directory), wrong);
    CHECK(only_miss(served.check({.ckpt_id = "golden-glm-nvfp4-mini"})) ==
          "cache: the directory is not there, nor is one of any other identity");
    CHECK(has(to_text(scan_store(posix(), served.root, "")),
              "meta.json has identity 'golden-glm-nvfp4-mini', for which the engine looks in v2/"));
  }
}

TEST_CASE("what is not said comes from what is there") {
  const Served served;
  const auto add = [&](const format::CacheMeta& meta) {
    const std::string directory = served.root + "/" + format::cache_directory(meta);
    fs::create_directories(parent_of(directory));
    copy_tree(served.directory, directory);
    put_file(directory + "/meta.json", format::meta_json(meta));
  };
  const auto usage = [&](const BootRequest& request) -> std::string {
    try {
      complete(request, scan_store(posix(), served.root, served.store));
    } catch (const Error& error) {
      CHECK(error.code() == ErrorCode::usage);
      return error.reason();
    }
    return "";
  };
  SUBCASE("two identities: asks, and takes an answer") {
    add({"second", 1, 0, format::ZeroMode::automatic, false});
    CHECK(has(usage({}),
              "'golden-glm-nvfp4-mini' (world 1, zero mode auto), 'second' (world 1, zero mode auto); choose "
              "one with --ckpt-id"));
    CHECK(served.check({.ckpt_id = "golden-glm-nvfp4-mini"}).hit());
    CHECK(misses(served.check({.ckpt_id = "second"})).size() == 3);  // it has no packs
  }
  SUBCASE("two zero modes of one identity") {
    add({"golden-glm-nvfp4-mini", 1, 0, format::ZeroMode::sign, false});
    CHECK(has(usage({}), "--zero-mode"));
    CHECK(served.check({.zero_mode = format::ZeroMode::automatic}).hit());
  }
  SUBCASE("a rank outside the world") {
    CHECK(has(usage({.rank = 1}), "rank 1 is outside the world of 1"));
  }
  SUBCASE("a world of two with one rank there") {
    add({"golden-glm-nvfp4-mini", 2, 1, format::ZeroMode::automatic, false});
    fs::remove_all(served.directory);
    const Store store = scan_store(posix(), served.root, "");
    const Boot boot = complete({}, store);
    CHECK(boot.world == 2);
    CHECK(boot.ranks == std::vector<std::uint64_t>{0, 1});
    CHECK(has(to_text(store), "the planes cache lacks rank 0"));
  }
  SUBCASE("nothing there") {
    Scratch empty;
    const Store store = scan_store(posix(), empty.path(), empty / "nowhere");
    CHECK(to_text(store) == "no planes cache and no pack of any identity\n");
    try {
      complete({}, store);
      FAIL("accepted");
    } catch (const Error& error) {
      CHECK(error.code() == ErrorCode::difference);
    }
    const Boot boot = complete({.ckpt_id = "x"}, store);
    CHECK(boot.world == 1);
    CHECK(tiers_there(store, boot, std::nullopt).size() == 3);
    // Not even the geometry is needed to say so.
    CHECK(misses(probe(posix(), store, boot, std::nullopt)).size() == 4);
  }
  SUBCASE("the geometry is needed where the identity is there") {
    const Store store = scan_store(posix(), served.root, served.store);
    try {
      probe(posix(), store, complete({}, store), std::nullopt);
      FAIL("accepted");
    } catch (const Error& error) {
      CHECK(error.code() == ErrorCode::usage);
      CHECK(has(error.reason(), "--config, --profile or --checkpoint"));
    }
  }
}

TEST_CASE("looking changes nothing") {
  const Served served;
  const auto snapshot = [&] {
    std::map<std::string, std::string> all;
    for (const auto& entry : fs::recursive_directory_iterator(parent_of(served.root))) {
      struct stat st {};
      REQUIRE(::lstat(entry.path().c_str(), &st) == 0);
      all[entry.path()] =
          fmt::format("{} {:o} {} {} {}.{} {}.{} {}", st.st_ino, st.st_mode, st.st_nlink, st.st_size,
                      st.st_mtim.tv_sec, st.st_mtim.tv_nsec, st.st_ctim.tv_sec, st.st_ctim.tv_nsec,
                      entry.is_regular_file() ? file_contents(entry.path()) : "");
    }
    return all;
  };
  const auto before = snapshot();
  served.check();
  served.check({.ckpt_id = "another", .world = 2});
  to_text(scan_store(posix(), served.root, served.store));
  CHECK(snapshot() == before);
}
