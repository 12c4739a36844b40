// Each way in which a pack can be wrong, one at a time, and what the engine needs to write or read.
#include <doctest/doctest.h>
#include <errno.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <string>
#include <tuple>

#include "base/error.h"
#include "served.h"
#include "store/probe.h"
#include "verify/report.h"

namespace fs = std::filesystem;

TEST_CASE("a pack with one thing wrong") {
  const Served served;
  const std::string stem = served.stem.at("delta"), json = stem + ".json", pack = stem + ".pack",
                    lock = stem + ".lock";
  const std::uint64_t bytes = fs::file_size(pack);

  SUBCASE("the sidecar is missing") {
    fs::remove(json);
    const BootVerdict verdict = served.check();
    CHECK(only_miss(verdict) == "delta: the sidecar is missing");
    CHECK(emptied(verdict) == Misses{"delta"});
    CHECK(has(to_text(verdict),
              "warning: at its first start the engine would replace " + pack + " by an empty pack"));
  }
  SUBCASE("the sidecar is not JSON") {
    put_file(json, "[");
    const BootVerdict verdict = served.check();
    CHECK(has(only_miss(verdict), "delta: the sidecar is unreadable: not valid JSON"));
    CHECK(emptied(verdict) == Misses{"delta"});
  }
  SUBCASE("one value of the sidecar") {
    const std::tuple<const char*, const char*, const char*> values[] = {
        {"\"E\": 3", "\"E\": 4", "differs in E: cache has 4, engine would ask 3"},
        {"golden-glm", "another",
         "differs in ckpt_id: cache has \"another-nvfp4-mini\", engine would ask \"golden-glm-nvfp4-mini\""},
        {"\"n_layers\": 4", "\"n_layers\": 5", "differs in n_layers: cache has 5, engine would ask 4"},
        {"\"stride\": 36864", "\"stride\": 40960",
         "differs in stride: cache has 40960, engine would ask 36864"},
        {"\"slot_bytes\": 36864", "\"slot_bytes\": 36860",
         "differs in slot_bytes: cache has 36860, engine would ask 36864"},
        {"\"tag\": \"delta\"", "\"tag\": \"fp4\"",
         "differs in tag: cache has \"fp4\", engine would ask \"delta\""},
        {"\"zero_mode\": \"auto\"", "\"zero_mode\": \"sign\"",
         "differs in zero_mode: cache has \"sign\", engine would ask \"auto\""},
        {"\"version\": 2", "\"version\": 1", "differs in version: cache has 1, engine would ask 2"},
        {"a32-v2", "a32-v9",
         "differs in quantizer_abi: cache has \"tsym4-e8m0-fragmajor-a32-v9\", engine would ask "
         "\"tsym4-e8m0-fragmajor-a32-v2\""},
        {"\"tag\"", "\"more\": 0, \"tag\"", "has more, one key more than the engine writes"}};
    for (const auto& [what, by, reason] : values) {
      const auto& this_by = by;  // clang 14 cannot capture structured bindings
      CAPTURE(this_by);
      const std::string before = file_contents(json);
      replace_in(json, what, by);
      const BootVerdict verdict = served.check();
      CHECK(only_miss(verdict) == std::string("delta: the sidecar ") + reason);
      CHECK(emptied(verdict) == Misses{"delta"});
      put_file(json, before);
    }
  }
  SUBCASE("the sidecar is a directory") {
    fs::remove(json);
    fs::create_directory(json);
    CHECK(has(only_miss(served.check()), "delta: the sidecar is unreadable: is a directory"));
  }
  SUBCASE("the sidecar lists one layer less") {
    replace_in(json, "[0, 1]", "[0]");
    const BootVerdict verdict = served.check();
    CHECK(only_miss(verdict) == "delta: the sidecar lists no layer 2 (layer key 1)");
    CHECK(emptied(verdict).empty());
  }
  SUBCASE("the sidecar lists a layer that cannot be") {
    replace_in(json, "[0, 1]", "[0, 1, 9]");
    CHECK(has(only_miss(served.check()), "the sidecar is unreadable: lists layer 9 of 4"));
  }
  SUBCASE("the sidecar lists the layer after the last one") {
    replace_in(json, "[0, 1]", "[0, 1, 3]");
    CHECK(served.check().hit());
  }
  SUBCASE("the pack is missing") {
    fs::remove(pack);
    const BootVerdict verdict = served.check();
    CHECK(only_miss(verdict) == "delta: the pack is missing");
    CHECK(emptied(verdict).empty());
  }
  SUBCASE("the pack is short") {
    fs::resize_file(pack, bytes - 1);
    const BootVerdict verdict = served.check();
    CHECK(only_miss(verdict) ==
          fmt::format("delta: the pack is 1 bytes short: {} bytes, expected {}", bytes - 1, bytes));
    CHECK(emptied(verdict) == Misses{"delta"});
  }
  SUBCASE("the pack is long") {
    fs::resize_file(pack, bytes + 4096);
    CHECK(only_miss(served.check()) ==
          fmt::format("delta: the pack is 4096 bytes too long: {} bytes, expected {}", bytes + 4096, bytes));
  }
  SUBCASE("the pack is a directory") {
    fs::remove(pack);
    fs::create_directory(pack);
    const BootVerdict verdict = served.check();
    CHECK(only_miss(verdict) == "delta: the pack is not a regular file");
  }
  SUBCASE("pack and sidecar are missing, of a tier that is asked for") {
    fs::remove(pack);
    fs::remove(json);
    CHECK(served.check().hit());  // nothing shows that there ever was one
    CHECK(only_miss(served.check({.tiers = {{format::Tier::delta}}})) == "delta: the pack is not there");
  }
  SUBCASE("the lock is missing, which the engine fixes") {
    fs::remove(lock);
    const BootVerdict verdict = served.check();
    CHECK(verdict.hit());
    CHECK(verdict.notes == Misses{lock + " is missing; the engine will make it"});
  }
  SUBCASE("the lock is a directory") {
    fs::remove(lock);
    fs::create_directory(lock);
    CHECK(only_miss(served.check()) == "delta: the .lock is a directory");
  }
  SUBCASE("a tier is asked for that was not built") {
    CHECK(only_miss(served.check({.tiers = {{format::Tier::fp4q}}})) == "fp4q: the pack is not there");
  }
}

namespace {

// Says that one path is not writable (tests may run as root, to whom permissions mean nothing).
class ReadOnly : public Os {
 public:
  ReadOnly(std::string path, bool by_mount) : path_(std::move(path)), by_mount_(by_mount) {}
  int access(const char* path, int mode) override {
    if (path != path_ || (mode & W_OK) == 0 || by_mount_) return Os::access(path, mode);
    errno = EACCES;
    return -1;
  }
  int statvfs(const char* path, struct statvfs* out) override {
    const int result = Os::statvfs(path, out);
    if (path == path_ && by_mount_) out->f_flag |= ST_RDONLY;
    return result;
  }

 private:
  const std::string path_;
  const bool by_mount_;
};

class Unreadable : public Os {
 public:
  explicit Unreadable(std::string path) : path_(std::move(path)) {}
  int access(const char* path, int mode) override {
    if (path != path_ || (mode & R_OK) == 0) return Os::access(path, mode);
    errno = EACCES;
    return -1;
  }

 private:
  const std::string path_;
};

}  // namespace

TEST_CASE("files and directories that the engine has to write") {
  const Served served;
  const std::string stem = served.stem.at("base");
  bool by_mount = false;
  SUBCASE("by permission") {
    by_mount = false;
  }
  SUBCASE("by mount") {
    by_mount = true;
  }
  const std::string why =
      by_mount ? "is not writable (read-only file system)" : "is not writable (Permission denied)";
  SUBCASE("the pack") {
    ReadOnly os(stem + ".pack", by_mount);
    const BootVerdict verdict = served.check({}, os);
    CHECK(only_miss(verdict) == "base: the pack " + why);
    CHECK(emptied(verdict).empty());
  }
  SUBCASE("the lock") {
    ReadOnly os(stem + ".lock", by_mount);
    CHECK(only_miss(served.check({}, os)) == "base: the .lock " + why);
  }
  SUBCASE("the directory where the lock is missing") {
    ReadOnly os(served.store, by_mount);
    CHECK(served.check({}, os).hit());
    fs::remove(stem + ".lock");
    CHECK(only_miss(served.check({}, os)) == "base: the .lock is missing, and the directory " + why);
  }
  SUBCASE("the planes cache, only where something is missing") {
    ReadOnly os(served.directory, by_mount);
    CHECK(served.check({}, os).notes.empty());
    fs::remove(served.directory + "/layer1.sc2.bin");
    const BootVerdict verdict = served.check({}, os);
    CHECK(only_miss(verdict) == "layer 1 sc2: is missing");
    CHECK(verdict.notes ==
          Misses{served.directory + " " + why + "; the engine could not keep what it makes"});
  }
}

TEST_CASE("files that the engine has to read") {
  const Served served;
  SUBCASE("a part") {
    Unreadable os(served.directory + "/layer1.sc2.bin");
    CHECK(only_miss(served.check({}, os)) == "layer 1 sc2: is not readable (Permission denied)");
  }
  SUBCASE("a pack") {
    Unreadable os(served.stem.at("fp4") + ".pack");
    CHECK(has(only_miss(served.check({}, os)), "fp4: the pack is not readable (Permission denied)"));
  }
}
