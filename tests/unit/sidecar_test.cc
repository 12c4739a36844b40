// meta.json and the packs' sidecars: what is not a number of layers, ranks or bytes is refused, never
// converted.
#include <doctest/doctest.h>

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
