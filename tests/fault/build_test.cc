// Cache and packs under a failing operating system: at no moment does a reader that follows the engine's
// rules accept wrong bytes, and the next run produces the right ones and leaves no other file.
#include <doctest/doctest.h>
#include <errno.h>

#include "base/error.h"
#include "fault/fault_os.h"
#include "format/pack.h"
#include "format/planescache.h"
#include "pipeline/from_planescache.h"
#include "unit/build_fixture.h"

using namespace planesmith;
using namespace planesmith::test;

namespace {

std::string contents(const std::string& path) {
  return read_text(posix(), path, std::uint64_t{1} << 30);
}

// What the engine would accept of `directory` must be what is in `right`, a finished build.
void check_what_the_engine_accepts(const std::string& directory, const std::string& right) {
  for (const auto& [path, digest] : engine_digests(right)) {
    const std::string here = directory + "/" + path, there = right + "/" + path;
    if (path.ends_with(format::kMetaName) && exists(posix(), here)) CHECK(contents(here) == contents(there));
    if (path.ends_with(".planes13.bin")) {  // a layer: all of its parts, with the right sizes
      const std::string stem = path.substr(0, path.size() - std::string("planes13.bin").size());
      bool hit = true;
      for (const format::Part& part : format::cache_parts(format::Fp4Tier::nibble)) {
        const std::string name = "/" + stem + std::string(part.name) + ".bin";
        hit = hit && exists(posix(), directory + name) &&
              std::filesystem::file_size(directory + name) == std::filesystem::file_size(right + name);
      }
      for (const format::Part& part : format::cache_parts(format::Fp4Tier::nibble)) {
        const std::string name = "/" + stem + std::string(part.name) + ".bin";
        if (hit) CHECK(contents(directory + name) == contents(right + name));
      }
    }
    if (path.ends_with(".pack")) {
      const std::string sidecar_path = here.substr(0, here.size() - 4) + "json";
      if (!exists(posix(), sidecar_path)) continue;
      const format::Sidecar sidecar = format::parse_sidecar(contents(sidecar_path), sidecar_path);
      REQUIRE(exists(posix(), here));
      const std::string found = contents(here), wanted = contents(there);
      REQUIRE(found.size() == wanted.size());
      const std::uint64_t layer_bytes = sidecar.spec.experts * sidecar.spec.stride;
      for (const std::uint64_t key : sidecar.layer_keys)
        CHECK(found.compare(key * layer_bytes, layer_bytes, wanted, key * layer_bytes, layer_bytes) == 0);
    }
  }
}

struct Bench {
  Scratch right, work;
  std::string out = work / "out";
  std::string checkpoint;
  PlanRequest request;
  int threads = 1;

  explicit Bench(const std::string& model) : checkpoint(golden(model) + "/checkpoint") {
    request.cache = format::Fp4Tier::nibble;
    request.tiers = {format::Tier::base, format::Tier::fp4};
    build_into(hasty_context(), checkpoint, request, "pin", right.path());
  }
  void clear() const {
    std::filesystem::remove_all(out);
    std::filesystem::create_directory(out);
  }
  void build_with(Os& os, Trust trust = Trust::record) const {
    const Context context{.os = os, .threads = threads};
    build_into(context, checkpoint, request, "pin", out, trust);
  }
  // What is left is harmless, and one more run makes it right.
  void check_after(const FaultOs& os, Trust trust = Trust::record) const {
    CAPTURE(os.hit_at());
    check_what_the_engine_accepts(out, right.path());
    build_with(posix(), trust);
    CHECK(digests(out) == digests(right.path()));
  }
};

}  // namespace

TEST_CASE("every operation of a build fails in turn") {
  const Bench bench("fp8-blocks");
  std::uint64_t failed = 0;
  for (const int error : {EIO, ENOSPC, EDQUOT, EROFS})
    for (const bool lasting : {false, true})
      failed += fail_each(
          bench.work.path(), error, lasting, [&] { bench.clear(); }, [&](Os& os) { bench.build_with(os); },
          [&](const FaultOs& os) { bench.check_after(os); });
  CHECK(failed > 100);
  MESSAGE("operations failed in turn: ", failed);
}

TEST_CASE("every operation of a build with three threads fails in turn") {
  Bench bench("ds4-mini");
  bench.threads = 3;
  std::uint64_t failed = 0;
  for (const auto& [error, lasting] :
       {std::pair{EMFILE, false}, std::pair{EIO, false}, std::pair{ENOSPC, true}})
    failed += fail_each(
        bench.work.path(), error, lasting, [&] { bench.clear(); }, [&](Os& os) { bench.build_with(os); },
        [&](const FaultOs& os) { bench.check_after(os); });
  CHECK(failed > 100);
  MESSAGE("operations failed in turn: ", failed);
}

TEST_CASE("a build copes with interrupted and short transfers") {
  const Bench bench("ds4-mini");
  bench.clear();
  FaultOs os(bench.work.path(), Fault::slow_and_interrupted());
  bench.build_with(os);
  CHECK(digests(bench.out) == digests(bench.right.path()));
}

TEST_CASE("a build crashes after each operation and loses what was not synced") {
  Bench bench("ds4-mini");
  for (const int threads : {1, 3}) {
    bench.threads = threads;
    const std::uint64_t crashes = crash_each(
        bench.work.path(), [&] { bench.clear(); }, [&](Os& os) { bench.build_with(os); },
        [&](const FaultOs& os) { bench.check_after(os); });
    CHECK(crashes > 100);
    MESSAGE("crash points with ", threads, " threads: ", crashes);
  }
}

TEST_CASE("a forced rebuild over another checkpoint's bytes crashes after each operation") {
  // The same pin for two checkpoints: parts of both must never make up one layer.
  const Bench bench("fp8-blocks");
  Scratch other;
  copy_tree(bench.checkpoint, other / "checkpoint");
  const Checkpoint theirs_open = Checkpoint::open(hasty_context(), other / "checkpoint");
  const Model model = find_experts(theirs_open);
  for (const ExpertTensors& tensors : model.layers.front().experts.front()) {
    File file = File::open_write(posix(), theirs_open.shard_path(*tensors.weight));
    std::vector<std::uint8_t> bytes(tensors.weight->size);
    file.read(bytes, tensors.weight->offset);
    for (std::uint8_t& byte : bytes) byte ^= 0x80;  // signs, so that no NaN comes about
    file.write(bytes, tensors.weight->offset);
  }
  Scratch theirs;
  build_into(hasty_context(), other / "checkpoint", bench.request, "pin", theirs / "out");
  REQUIRE(engine_digests(theirs / "out") != engine_digests(bench.right.path()));
  const auto old_or_new = [&](const FaultOs& os) {
    CAPTURE(os.hit_at());
    // A layer that the engine would accept is wholly the old one or wholly the new one.
    const std::string directory =
        "/planescache/" + format::cache_directory({"pin", 1, 0, format::ZeroMode::automatic, false});
    int ours = 0, all = 0;
    for (const format::Part& part : format::cache_parts(format::Fp4Tier::nibble)) {
      const std::string name = directory + "/" + format::part_file(0, part.name);
      if (!exists(posix(), bench.out + name)) continue;
      ++all;
      if (contents(bench.out + name) == contents(bench.right.path() + name)) ++ours;
    }
    int unchanged = 0;
    for (const format::Part& part : format::cache_parts(format::Fp4Tier::nibble)) {
      const std::string name = directory + "/" + format::part_file(0, part.name);
      if (contents(theirs / "out" + name) == contents(bench.right.path() + name)) ++unchanged;
    }
    if (all == 6) CHECK((ours == 6 || ours == unchanged));
    bench.build_with(posix(), Trust::nothing);
    CHECK(digests(bench.out) == digests(bench.right.path()));
  };
  const std::uint64_t crashes = crash_each(
      bench.work.path(),
      [&] {
        std::filesystem::remove_all(bench.out);
        copy_tree(theirs / "out", bench.out);
      },
      [&](Os& os) { bench.build_with(os, Trust::nothing); }, old_or_new);
  CHECK(crashes > 50);
  MESSAGE("crash points: ", crashes);
}

TEST_CASE("packs from a cache: operations fail and crashes come after each operation") {
  const Bench bench("fp8-blocks");
  int threads = 1;
  const auto assemble = [&](Os& os) {
    FromCacheRequest request;
    request.cache_root = bench.right / "planescache";
    request.store = bench.out + "/store";
    request.tiers = bench.request.tiers;
    packs_from_planescache(Context{.os = os, .threads = threads}, request, kScalarKernels);
  };
  const auto check = [&](const FaultOs& os) {
    CAPTURE(os.hit_at());
    check_what_the_engine_accepts(bench.out, bench.right.path());
    assemble(posix());
    CHECK(digests(bench.out + "/store") == digests(bench.right / "store"));
  };
  for (; threads <= 3; threads += 2) {
    std::uint64_t failed = 0;
    for (const int error : {EIO, EMFILE})
      failed += fail_each(
          bench.work.path(), error, false, [&] { bench.clear(); }, assemble, check);
    const std::uint64_t crashes = crash_each(
        bench.work.path(), [&] { bench.clear(); }, assemble, check);
    CHECK(failed > 60);
    CHECK(crashes > 50);
    MESSAGE("operations failed in turn: ", failed, ", crash points: ", crashes);
  }
}

TEST_CASE("operations that fail with ESTALE are repeated and do not end a build") {
  Bench bench("ds4-mini");
  bench.threads = 3;
  for (std::uint64_t nth = 1;; nth += 7) {
    bench.clear();
    FaultOs os(bench.work.path(), Fault::fail(nth, ESTALE));
    try {
      bench.build_with(os);
    } catch (const Error& error) {  // these cannot be repeated; the next run continues
      CAPTURE(std::string(error.what()));
      const std::string at = os.hit_at();
      CAPTURE(at);
      CHECK((at.starts_with("close") || at.starts_with("readdir")));
      bench.build_with(posix());
    }
    if (!os.hit()) break;
    CAPTURE(os.hit_at());
    CHECK(digests(bench.out) == digests(bench.right.path()));
  }
}
