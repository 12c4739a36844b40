#include "format/file_names.h"

#include <doctest/doctest.h>

#include <string>

#include "format/pack.h"

using namespace planesmith;
using namespace planesmith::format;

namespace {
const std::string kKey(20, 'a');
}

TEST_CASE("names of a planes cache are read as they are written") {
  CHECK(rank_directory(kKey, 4, 3) == "v2/" + kKey + "/tp4-rank3");
  CHECK(is_rank_directory("tp4-rank3"));
  CHECK(is_key(kKey));
  CHECK(part_file(61, "sc2") == "layer61.sc2.bin");
  const auto part = parse_part_file("layer61.sc2.bin");
  REQUIRE(part.has_value());
  CHECK(part->layer == 61);
  CHECK(part->part == "sc2");
}

TEST_CASE("other names are not those of a planes cache") {
  for (const char* name : {"tp0-rank0", "tp04-rank3", "tp4-rank03", "tp4-rank", "tp-rank3", "tp4-rank3.tmp",
                           "tp4-rank12345678901", "xtp4-rank3", "TP4-rank3"}) {
    CAPTURE(name);
    CHECK(!is_rank_directory(name));
  }
  for (const std::string& name :
       {kKey + "a", kKey.substr(1), std::string(20, 'g'), std::string(20, 'A'), std::string()})
    CHECK(!is_key(name));
  for (const char* name :
       {"layer.sc2.bin", "layer01.sc2.bin", "layer1..bin", "layer1.sc2.bin.tmp", "layer1.sc2",
        "layer-1.sc2.bin", "layer1.SC2.bin", "layer12345678901.sc2.bin", ""}) {
    CAPTURE(name);
    CHECK(!parse_part_file(name));
  }
}

TEST_CASE("the stem of a pack of every tier is read as it is written") {
  for (const Tier tier : kTiers) {
    const std::string stem = pack_stem(tag(tier), kKey, 3, 8);
    CAPTURE(stem);
    const auto parsed = parse_pack_stem(stem);
    REQUIRE(parsed.has_value());
    CHECK(parsed->tag == tag(tier));
    CHECK(parsed->key == kKey);
    CHECK(parsed->rank == 3);
    CHECK(parsed->world == 8);
    for (const std::string& file : {pack_file(stem), sidecar_file(stem), pack_manifest_file(stem)})
      CHECK(stem_of_file(file) == stem);
    for (const std::string& file : {lock_file(stem), heat_file(stem), pack_file(stem) + ".tmp", stem,
                                    pack_records(stem), pack_file("x" + stem)})
      CHECK(stem_of_file(file) == "");
    CHECK(stem_of_pack("/d/" + pack_file(stem)) == "/d/" + stem);
  }
}

TEST_CASE("other names are not stems of packs") {
  for (const std::string& name :
       {"base.v2." + kKey + ".rank0of0", "base.v2." + kKey + ".rank00of1", "base.v1." + kKey + ".rank0of1",
        "base.v2." + kKey + "a.rank0of1", "other.v2." + kKey + ".rank0of1", "base.v2." + kKey + ".rank0of1 ",
        "base." + kKey + ".rank0of1"}) {
    CAPTURE(name);
    CHECK(!parse_pack_stem(name));
  }
}

TEST_CASE("records are beside what they describe, with a dot in front") {
  CHECK(pack_records("stem") == ".stem");
  CHECK(pack_records("/a/b/stem") == "/a/b/.stem");
  CHECK(parse_record_file(record_file(7)) == 7);
  CHECK(!parse_record_file("layer7.json.tmp"));
  CHECK(!parse_record_file("layer.json"));
}

TEST_CASE("locks of records belong to them, and only theirs do") {
  const std::string records = pack_records(pack_stem("base", kKey, 0, 1));
  CHECK(is_layer_lock(layer_lock(records, 12), records));
  CHECK(!is_layer_lock(records_lock(records), records));
  CHECK(!is_layer_lock(layer_lock(records, 12), records.substr(1)));
  CHECK(records_of_lock(layer_lock(records, 12)) == records);
  CHECK(records_of_lock(records_lock(records)) == records);
  CHECK(records_of_lock(records) == "");
}

TEST_CASE("heat of a pool is read as it is written") {
  const std::string name = pool_heat_file("delta", 1, 2);
  CHECK(name == "pool-heat.delta.rank1of2.json");
  const auto parsed = parse_pool_heat_file(name);
  REQUIRE(parsed.has_value());
  CHECK(parsed->tag == "delta");
  CHECK(parsed->rank == 1);
  CHECK(parsed->world == 2);
  CHECK(!parse_pool_heat_file("pool-heat.delta.rank1of0.json"));
  CHECK(!parse_pool_heat_file("pool-heat..rank1of2.json"));
}
