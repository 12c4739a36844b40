// A fault of one rank of two is reported for that rank only.
#include <doctest/doctest.h>

#include <filesystem>

#include "rekey_store.h"
#include "store/probe.h"
#include "verify/report.h"

using namespace rekey_store;
namespace fs = std::filesystem;

namespace {

std::string directory_of_rank_1(const Scratch& dir) {
  return dir / "cache/" + format::cache_directory({"id", kWorld, 1, format::ZeroMode::automatic, false});
}

// Which of the two ranks' caches, then of the four packs (base of rank 0 and 1, delta of rank 0 and 1) would
// hit.
std::string hits(const BootVerdict& verdict) {
  std::string out;
  for (const CacheVerdict& cache : verdict.caches) out += cache.hit() ? 'y' : 'n';
  for (const PackVerdict& pack : verdict.packs) out += pack.hit() ? 'y' : 'n';
  return out;
}

}  // namespace

TEST_CASE("one rank of two with one thing wrong") {
  const Scratch dir;
  make(dir.path(), "id");
  const std::string directory = directory_of_rank_1(dir);
  std::string delta;
  for (const auto& file : fs::directory_iterator(dir / "store"))
    if (name_of(file.path()).starts_with("delta") && file.path().string().ends_with("rank1of2.pack"))
      delta = file.path();
  CHECK(hits(ask(dir.path(), "id")) == "yyyyyy");
  SUBCASE("meta.json") {
    put_file(directory + "/meta.json",
             format::meta_json({"id", kWorld, 0, format::ZeroMode::automatic, false}));
    const BootVerdict verdict = ask(dir.path(), "id");
    CHECK(hits(verdict) == "ynyyyy");
    CHECK(verdict.caches[1].miss == "meta.json differs in rank: cache has 0, engine would ask 1");
  }
  SUBCASE("the whole directory") {
    fs::remove_all(directory);
    const BootVerdict verdict = ask(dir.path(), "id");
    CHECK(hits(verdict) == "ynyyyy");
    CHECK(
        verdict.caches[1].miss ==
        "the directory is not there; the nearest one's meta.json differs in rank: cache has 0, engine would "
        "ask 1");
  }
  SUBCASE("a part") {
    fs::remove(directory + "/layer2.sc2.bin");
    const BootVerdict verdict = ask(dir.path(), "id");
    CHECK(hits(verdict) == "ynyyyy");
    CHECK(verdict.caches[1].layers[0].hit());
    CHECK(verdict.caches[1].layers[1].parts[3].miss == "is missing");
  }
  SUBCASE("a pack") {
    fs::resize_file(delta, 4096);
    const BootVerdict verdict = ask(dir.path(), "id");
    CHECK(hits(verdict) == "yyyyyn");
    CHECK(verdict.packs[3].rank == 1);
    CHECK(verdict.packs[3].emptied);
  }
  SUBCASE("only the other rank is asked for") {
    fs::remove_all(directory);
    fs::resize_file(delta, 4096);
    const Store store = scan_store(posix(), dir / "cache", dir / "store");
    const BootVerdict verdict =
        probe(posix(), store, complete({.rank = 0}, store), KnownModel{kGeometry, {1, 2}, "test"});
    CHECK(hits(verdict) == "yyy");
  }
}
