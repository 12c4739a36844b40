// Packs from a cache whose sections are several pieces, the last of them short: the bytes, the size of reads,
// and what a damaged cache leaves of new packs and of finished ones.
#include "pipeline/from_planescache.h"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"
#include "build_fixture.h"
#include "format/planescache.h"
#include "synthetic/model.h"
#include "synthetic/write.h"

using namespace planesmith;
using namespace planesmith::test;
namespace fs = std::filesystem;

namespace {

constexpr std::uint64_t kExperts = 3, kLargestRead = 256 * kKiB;
constexpr int kThreads[] = {1, 4};

// Keeps the size of the largest read.
class ReadsOs : public HastyOs {
 public:
  ssize_t pread(int fd, void* to, std::size_t n, off_t offset) override {
    const std::lock_guard<std::mutex> lock(mutex_);
    largest = std::max(largest, n);
    return Os::pread(fd, to, n, offset);
  }
  std::size_t largest = 0;

 private:
  std::mutex mutex_;
};

struct Bench {
  const Scratch scratch;
  const std::string checkpoint = scratch / "checkpoint", right = scratch / "right", out = scratch / "out";
  const std::string rank =
      right + "/planescache/" + format::cache_directory({"pin", 1, 0, format::ZeroMode::automatic, false});
  FromCacheRequest request;

  // Sections of 655,360 (fp13), 327,680 (planes13, fp2), 163,840 (planes2) and 40,960 bytes (sc13).
  Bench() {
    const synthetic::Spec spec{
        .geometry = {.layers = 2, .experts = kExperts, .hidden = 1024, .intermediate = 640}, .mtp_layers = 0};
    const auto shards = synthetic::cut_into_shards(synthetic::tensors_of(spec), 1);
    fs::create_directories(checkpoint);
    put_file(checkpoint + "/config.json", pretty(synthetic::config_of(spec)));
    const std::uint64_t bytes = synthetic::write_shards(Context{}, checkpoint, shards);
    put_file(checkpoint + "/model.safetensors.index.json", synthetic::index_json(shards, bytes));
    synthetic::fill_shards(Context{}, checkpoint, shards, synthetic::Weights(1, kExperts),
                           [](const Tensor&) { return true; });
    request.cache_root = right + "/planescache";
    request.store = out;
    request.reflink = Reflink::never;
    request.tiers = {format::Tier::base, format::Tier::delta, format::Tier::fp4, format::Tier::fp4q,
                     format::Tier::deltaq};
    PlanRequest plan;
    plan.cache = format::Fp4Tier::nibble;
    plan.tiers = request.tiers;
    build_into(hasty_context(), checkpoint, plan, "pin", right);
  }

  FromCacheReport assemble(int threads) const {
    return packs_from_planescache(hasty_context(threads), request, choose_kernels("auto"));
  }
  void remove_manifest() {
    fs::remove(rank + "/manifest.json");
    request.model = model_of_config(posix(), checkpoint);
  }
  std::uint64_t section(const std::string& part) const {
    return fs::file_size(rank + "/layer1." + part + ".bin") / kExperts;
  }

  // Flips all bits of a byte of expert 1's section in layer 1, for as long as `meanwhile` takes.
  template <typename Meanwhile>
  void damage(const std::string& part, std::uint64_t at, Meanwhile meanwhile) const {
    CAPTURE(part);
    CAPTURE(at);
    const std::string path = rank + "/layer1." + part + ".bin", good = file_contents(path);
    std::string bad = good;
    char& byte = bad[section(part) + at];
    byte = static_cast<char>(~byte);
    put_file(path, bad);
    meanwhile();
    put_file(path, good);
  }
  // A run ends with this error about expert 1 of a part of layer 1.
  void refused(int threads, const std::string& part, const std::string& reason) const {
    try {
      assemble(threads);
      FAIL_CHECK("no error");
    } catch (const Error& error) {
      CHECK(error.code() == ErrorCode::difference);
      CHECK(error.path() == rank + "/layer1." + part + ".bin");
      CHECK(error.offset() == section(part));
      CHECK(error.reason() == reason + rank + " --checkpoint DIR");
    }
  }
  std::string pack() const {
    std::string found;
    for (const auto& entry : fs::directory_iterator(out))
      if (entry.path().extension() == ".pack") found = entry.path();
    REQUIRE(!found.empty());
    return found;
  }
  // Layers that the sidecar lists are right, and the damaged one is not listed.
  void check_new_pack() const {
    const std::string path = pack(), name = path.substr(path.rfind('/') + 1);
    const std::string sidecar = path.substr(0, path.size() - 4) + "json";
    const format::Sidecar found = format::parse_sidecar(file_contents(sidecar), sidecar);
    const std::string got = file_contents(path), want = file_contents(right + "/store/" + name);
    const std::uint64_t layer = kExperts * found.spec.stride;
    for (const std::uint64_t key : found.layer_keys) {
      CHECK(key != 1);
      CHECK((got.compare(key * layer, layer, want, key * layer, layer) == 0));
    }
    CHECK(!fs::exists(path + ".manifest.json"));
  }
};

constexpr const char* kWrong =
    "expert 1 is not what the manifest says; make it again with verify-ckpt-id repair ";
constexpr const char* kOtherCodes =
    "expert 1: the 2-bit planes are not those of the FP4 planes; make them again with verify-ckpt-id repair ";

}  // namespace

TEST_CASE("sections of several pieces, the last one short: the bytes of a build, in small reads") {
  Bench bench;
  REQUIRE(bench.section("fp13") % kLargestRead != 0);
  const auto right = digests(bench.right + "/store");
  SUBCASE("with a manifest") {}
  SUBCASE("without") {
    bench.remove_manifest();
  }
  for (const int threads : kThreads)
    for (const Reflink reflink : {Reflink::never, Reflink::automatic})
      for (const Trust trust : {Trust::record, Trust::content}) {
        fs::remove_all(bench.out);
        bench.request.reflink = reflink;
        bench.request.trust = trust;
        ReadsOs os;
        const FromCacheReport report = packs_from_planescache(Context{.os = os, .threads = threads},
                                                              bench.request, choose_kernels("auto"));
        CHECK(report.complete);
        CHECK(os.largest <= kLargestRead);
        // Stored bytes, 2-bit codes and quintal planes.
        CHECK(report.peak_memory ==
              static_cast<std::uint64_t>(threads) * (kLargestRead + kLargestRead / 2 + kLargestRead / 8 * 5));
        const auto made = digests(bench.out);
        CHECK(made == right);
      }
}

TEST_CASE("a damaged section is an error, and its layer is not listed by the new pack") {
  Bench bench;
  struct Case {
    format::Tier tier;
    std::vector<std::string> parts;
  };
  const std::vector<Case> cases{{format::Tier::base, {"planes13", "sc13"}},
                                {format::Tier::fp4, {"fp13", "fp2"}},
                                {format::Tier::fp4q, {"fp13", "fp2"}}};
  for (const Case& each : cases)
    for (const std::string& part : each.parts)
      for (const std::uint64_t at : {bench.section(part) / 2, bench.section(part) - 1})
        for (const int threads : kThreads) {
          fs::remove_all(bench.out);
          bench.request.tiers = {each.tier};
          bench.damage(part, at, [&] {
            bench.refused(threads, part, kWrong);
            bench.check_new_pack();
          });
          CHECK(bench.assemble(threads).complete);
          for (const auto& [name, digest] : digests(bench.out))
            CHECK(digest == digests(bench.right + "/store").at(name));
        }
}

TEST_CASE("quintal packs: 2-bit planes that are not those of the FP4 planes") {
  Bench bench;
  bench.request.tiers = {format::Tier::fp4q};
  const std::pair<std::string, std::string> matrices[] = {{"planes13", "fp13"}, {"planes2", "fp2"}};
  for (const auto& [codes, nibbles] : matrices)
    for (const int threads : kThreads)
      // The manifest's digest is taken; the 2-bit planes are not read.
      bench.damage(codes, bench.section(codes) - 1, [&] {
        fs::remove_all(bench.out);
        CHECK(bench.assemble(threads).complete);
      });
  bench.remove_manifest();
  for (const auto& [codes, nibbles] : matrices)
    for (const std::string& part : {codes, nibbles})
      for (const std::uint64_t at : {bench.section(part) / 2, bench.section(part) - 1})
        for (const int threads : kThreads)
          bench.damage(part, at, [&, &codes = codes] {
            fs::remove_all(bench.out);
            bench.refused(threads, codes, kOtherCodes);
            bench.check_new_pack();
          });
}

TEST_CASE("a damaged cache changes nothing of a finished pack that is compared with it") {
  Bench bench;
  for (const format::Tier tier : {format::Tier::fp4, format::Tier::fp4q}) {
    bench.request.tiers = {tier};
    fs::remove_all(bench.out);
    REQUIRE(bench.assemble(1).complete);
    const std::string pack = bench.pack();
    fs::remove(pack + ".manifest.json");
    const auto before = digests(bench.out);
    REQUIRE(before.size() >= 2);  // pack and sidecar
    for (const Reflink reflink : {Reflink::never, Reflink::automatic})
      for (const std::string part : {"fp13", "fp2"})
        for (const std::uint64_t at : {std::uint64_t{0}, bench.section(part) / 2, bench.section(part) - 1})
          for (const int threads : kThreads)
            bench.damage(part, at, [&] {
              bench.request.reflink = reflink;
              bench.refused(threads, part, kWrong);
              auto after = digests(bench.out);
              std::erase_if(after, [&](const auto& file) { return !before.contains(file.first); });
              CHECK(after == before);
            });
    CHECK(bench.assemble(4).complete);
    const auto right = digests(bench.right + "/store");
    for (const auto& [name, digest] : digests(bench.out)) CHECK(digest == right.at(name));
  }
}
