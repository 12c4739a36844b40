// Every file of every golden variant, built in every possible way.
#include <doctest/doctest.h>

#include "pipeline/from_planescache.h"
#include "unit/build_fixture.h"

using namespace planesmith;
using namespace planesmith::test;

namespace {

// A variant's packs, made in `store_in` from the cache in `cache_in`.
FromCacheRequest from_cache(const Variant& variant, const Scratch& cache_in, const Scratch& store_in) {
  FromCacheRequest request;
  request.cache_root = cache_in / "planescache";
  request.store = store_in / "store";
  request.tiers = variant.request.tiers;
  request.world = variant.request.world;
  request.zero_mode = variant.request.zero_mode;
  request.drafts = variant.request.drafts;
  return request;
}

}  // namespace

TEST_CASE("cache and packs in one pass equal the engine's, for all thread counts and instruction sets") {
  int files = 0;
  for (const std::string& model : kGoldenModels)
    for (const Variant& variant : golden_variants(model)) {
      CAPTURE(model);
      CAPTURE(variant.name);
      for (const Kernels* kernels : available_kernels())
        for (const int threads : {1, 2, 8}) {
          if (kernels != &kScalarKernels && threads != 2) continue;
          CAPTURE(kernels->name);
          CAPTURE(threads);
          const Scratch out;
          const Context context = hasty_context(threads);
          const BuildReport report =
              build_into(context, golden(model) + "/checkpoint", variant.request, variant.ckpt_id, out.path(),
                         Trust::record, {"cpu", std::string(kernels->name), {}});
          CHECK(report.complete);
          CHECK(engine_digests(out.path()) == variant.files);
          files += static_cast<int>(variant.files.size());
        }
    }
  MESSAGE("compared ", files, " files");
}

TEST_CASE("packs alone and packs from the cache equal those of the one pass, manifests too") {
  for (const std::string& model : kGoldenModels)
    for (const Variant& variant : golden_variants(model)) {
      CAPTURE(model);
      CAPTURE(variant.name);
      const Scratch together, alone, assembled;
      const Context context = hasty_context();
      build_into(context, golden(model) + "/checkpoint", variant.request, variant.ckpt_id, together.path());
      PlanRequest packs_only = variant.request;
      packs_only.cache.reset();
      build_into(context, golden(model) + "/checkpoint", packs_only, variant.ckpt_id, alone.path());
      CHECK(digests(alone / "store") == digests(together / "store"));

      const FromCacheRequest request = from_cache(variant, together, assembled);
      const FromCacheReport report = packs_from_planescache(context, request, kScalarKernels);
      CHECK(report.ckpt_id == variant.ckpt_id);
      CHECK(report.complete);
      CHECK(digests(assembled / "store") == digests(together / "store"));
    }
}

TEST_CASE("packs from a cache without manifests equal those of the one pass, the one that wrote the cache") {
  for (const std::string& model : kGoldenModels)
    for (const Variant& variant : golden_variants(model)) {
      CAPTURE(model);
      CAPTURE(variant.name);
      const Scratch together, assembled;
      const Context context = hasty_context();
      build_into(context, golden(model) + "/checkpoint", variant.request, variant.ckpt_id, together.path());
      for (const auto& [path, digest] : digests(together / "planescache"))
        if (path.ends_with("manifest.json")) std::filesystem::remove(together / "planescache/" + path);
      FromCacheRequest request = from_cache(variant, together, assembled);
      request.model = model_of_config(posix(), golden(model) + "/checkpoint");
      const FromCacheReport report = packs_from_planescache(context, request, kScalarKernels);
      CHECK(report.complete);
      CHECK(report.without_manifest.size() == variant.request.world);
      CHECK(digests(assembled / "store") == digests(together / "store"));
    }
}

TEST_CASE("quintal packs out of a nibble cache equal those out of the checkpoint") {
  for (const std::string& model : kGoldenModels) {
    CAPTURE(model);
    const Scratch out, derived;
    const Context context = hasty_context();
    PlanRequest request;
    request.cache = format::Fp4Tier::nibble;
    request.tiers = {format::Tier::fp4q, format::Tier::deltaq};
    build_into(context, golden(model) + "/checkpoint", request, "pin", out.path());
    FromCacheRequest from;
    from.cache_root = out / "planescache";
    from.store = derived / "store";
    from.tiers = request.tiers;
    CHECK(packs_from_planescache(context, from, choose_kernels("auto")).complete);
    CHECK(digests(derived / "store") == digests(out / "store"));
  }
}

TEST_CASE(
    "one rank at a time, one layer at a time and a cache grown by its FP4 planes end in the same bytes") {
  for (const std::string& model : kGoldenModels)
    for (const Variant& variant : golden_variants(model)) {
      if (variant.name != "tp2" && variant.name != "tp1") continue;
      CAPTURE(model);
      CAPTURE(variant.name);
      const Scratch out;
      const Context context = hasty_context();
      const std::string checkpoint = golden(model) + "/checkpoint";
      const Model layers = find_experts(Checkpoint::open(context, checkpoint));
      for (std::uint64_t rank = 0; rank < variant.request.world; ++rank)
        for (auto layer = layers.layers.rbegin(); layer != layers.layers.rend(); ++layer) {
          PlanRequest request = variant.request;
          request.rank = rank;
          request.layers = std::vector<std::uint64_t>{layer->index};
          request.cache = format::Fp4Tier::none;
          build_into(context, checkpoint, request, variant.ckpt_id, out.path());
          request.cache = variant.request.cache;
          const BuildReport report = build_into(context, checkpoint, request, variant.ckpt_id, out.path());
          CHECK(report.converted == 1);
          CHECK(report.complete == (layer->index == layers.layers.front().index));
        }
      CHECK(engine_digests(out.path()) == variant.files);
      const auto before = digests(out.path());
      CHECK(build_into(context, checkpoint, variant.request, variant.ckpt_id, out.path()).converted == 0);
      CHECK(digests(out.path()) == before);
      CHECK(build_into(context, checkpoint, variant.request, variant.ckpt_id, out.path(), Trust::nothing)
                .converted == layers.layers.size());
      CHECK(digests(out.path()) == before);
    }
}

TEST_CASE("a second run with --recheck repairs what was damaged, and only that") {
  const Scratch out;
  const Context context = hasty_context();
  const Variant variant = golden_variants("ds4-mini").front();
  const std::string checkpoint = golden("ds4-mini") + "/checkpoint";
  build_into(context, checkpoint, variant.request, variant.ckpt_id, out.path());
  const auto before = digests(out.path());
  for (const auto& entry : before) {
    const std::string& path = entry.first;
    if (!path.ends_with(".bin") && !path.ends_with(".pack")) continue;
    CAPTURE(path);
    File file = File::open_write(posix(), out / path);
    std::uint8_t byte = 0;
    file.read({&byte, 1}, 100);
    byte ^= 1;
    file.write({&byte, 1}, 100);
    CHECK(build_into(context, checkpoint, variant.request, variant.ckpt_id, out.path()).converted == 0);
    CHECK(build_into(context, checkpoint, variant.request, variant.ckpt_id, out.path(), Trust::content)
              .converted == 1);
    CHECK(digests(out.path()) == before);
  }
}
