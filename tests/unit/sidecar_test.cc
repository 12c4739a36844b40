// meta.json and the packs' sidecars: values that are not whole numbers are refused, never converted.
#include <doctest/doctest.h>

#include <set>

#include "base/error.h"
#include "base/json.h"
#include "format/pack.h"
#include "format/planescache.h"

using namespace planesmith;

TEST_CASE("numbers in meta.json and sidecars are whole and not negative") {
  const Json meta = Json::parse(format::meta_json({.ckpt_id = "x", .world = 2, .rank = 1}));
  const Json sidecar = Json::parse(format::sidecar_json({.tier = format::Tier::base,
                                                         .ckpt_id = "x",
                                                         .experts = 2,
                                                         .n_layers = 3,
                                                         .slot_bytes = 4,
                                                         .stride = 4096},
                                                        {0, 1}));
  format::parse_meta(meta.dump(), "meta.json");
  format::parse_sidecar(sidecar.dump(), "sidecar");
  // Found by fuzzing: the last is more than any integer holds.
  for (const char* bad : {"-1", "1.5", "\"1\"", "[1]", "true", "null", "3444444444444444444444444"}) {
    CAPTURE(bad);
    for (const char* key : {"world", "rank"}) {
      Json changed = meta;
      changed[key] = Json::parse(bad);
      CHECK_THROWS_WITH_AS(format::parse_meta(changed.dump(), "meta.json"),
                           doctest::Contains("is not a planes cache's meta.json"), Error);
    }
    for (const char* key : {"E", "n_layers", "slot_bytes", "stride", "layers"}) {
      Json changed = sidecar;
      changed[key] = Json::parse(bad);
      if (key == std::string("layers")) changed[key] = Json::array({0, Json::parse(bad)});
      CHECK_THROWS_WITH_AS(format::parse_sidecar(changed.dump(), "sidecar"),
                           doctest::Contains("is not a pack's sidecar"), Error);
    }
  }
}

TEST_CASE("two tiers have the tag delta; their slots tell them apart") {
  CHECK(format::tag(format::Tier::delta) == format::tag(format::Tier::deltaq));
  for (const std::uint64_t hidden : {128, 320, 4096, 5120}) {  // with and without a factor of 5
    CAPTURE(hidden);
    const format::Geometry geometry{2, 3, hidden, 2048};
    for (const std::uint64_t world : {1, 2}) {
      const format::RankShape shape = format::rank_shape(geometry, world);
      std::set<std::string> stems;
      for (const format::Tier tier : format::kTiers) {
        const format::PackSpec spec =
            format::pack_spec(tier, geometry, shape, "pin", format::ZeroMode::automatic);
        const format::Sidecar sidecar = format::parse_sidecar(format::sidecar_json(spec, {0, 1}), "sidecar");
        CHECK(sidecar.spec == spec);
        CHECK(format::settled_tier(sidecar.spec, shape) == tier);
        if (hidden % 5 != 0) CHECK(sidecar.spec.tier == tier);
        stems.insert(format::pack_stem(spec, 0, world));
      }
      CHECK(stems.size() == std::size(format::kTiers));
    }
  }
}

TEST_CASE("drafter blocks make a pack longer, and another one") {
  format::Geometry geometry{43, 256, 4096, 2048};
  const format::RankShape shape = format::rank_shape(geometry, 1);
  const auto spec = [&] {
    return format::pack_spec(format::Tier::base, geometry, shape, "pin", format::ZeroMode::automatic);
  };
  const format::PackSpec without = spec();
  geometry.drafts = 3;
  CHECK(without.n_layers == 44);
  CHECK(spec().n_layers == 47);
  CHECK(format::pack_key(spec()) != format::pack_key(without));
}
