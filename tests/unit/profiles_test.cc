// The model profiles that are shipped: what they say about sizes must follow from their geometry.
#include <doctest/doctest.h>

#include <cmath>
#include <string>

#include "base/error.h"
#include "base/file.h"
#include "base/json.h"
#include "format/geometry.h"
#include "format/pack.h"
#include "format/planescache.h"
#include "manifest/profile.h"

using namespace planesmith;
using namespace planesmith::format;

namespace {

const std::string kDirectory = SOURCE_DIR "/manifests/profiles";

std::uint64_t sections_bytes(const std::vector<Section>& sections, const RankShape& shape) {
  std::uint64_t bytes = 0;
  for (const Section section : sections) bytes += section_bytes(section, shape);
  return bytes;
}

}  // namespace

TEST_CASE("sizes and counts of the shipped profiles follow from the geometry") {
  int with_sizes = 0;
  for (const std::string& file : list_dir(posix(), kDirectory)) {
    CAPTURE(file);
    const Json json = read_json(posix(), join(kDirectory, file));
    const Profile profile = find_profile(posix(), join(kDirectory, file));
    CHECK(profile.name + ".json" == file);
    CHECK(profile.pins.at("quantizer_abi") == kQuantizerAbi);
    if (!profile.geometry) continue;
    const Geometry& g = *profile.geometry;
    const std::uint64_t sparse = profile.sparse_layers().size();
    CHECK(profile.expert_tensors == sparse * g.experts * 3);
    for (const auto& [world, sizes] : json.at("sizes").items()) {
      const auto& this_world = world;  // clang 14 cannot capture structured bindings
      CAPTURE(this_world);
      ++with_sizes;
      const RankShape shape = rank_shape(g, std::stoull(world));
      for (const Fp4Tier tier : kFp4Tiers) {
        std::uint64_t expert = 0;
        for (const Part& part : cache_parts(tier)) expert += section_bytes(part.section, shape);
        CHECK(sizes.at("planescache").at(name(tier)) == sparse * g.experts * expert);
      }
      for (const Tier tier : kTiers) {
        const PackSpec spec = pack_spec(tier, g, shape, "x", ZeroMode::automatic);
        CHECK(spec.slot_bytes == sections_bytes(slot_sections(tier), shape));
        CHECK(sizes.at("packs").at(name(tier)).at("length") == spec.file_bytes());
        CHECK(sizes.at("packs").at(name(tier)).at("allocated") == sparse * g.experts * spec.stride);
      }
    }
  }
  CHECK(with_sizes == 24);  // six models, worlds 1, 2, 4 and 8
}

// docs/ENGINE.md section 7.
TEST_CASE("geometry, revision, counts and sizes of the models that are known") {
  struct Known {
    const char *name, *revision;
    Geometry geometry;
    std::uint64_t first_dense, expert_tensors;
    double none, nibble, quintal;  // planes cache at world 1, GiB; 0: not said
  };
  const Known models[] = {{"DeepSeek-V4-Flash",
                           "6976c7ff1b30a1b2cb7805021b8ba4684041f136",
                           {43, 256, 4096, 2048},
                           0,
                           33024,
                           72.6,
                           201.6,
                           153.2},
                          {"DeepSeek-V4-Flash-0731",
                           "9e165c30e2704aec5d9d593cce3eebd58bbef1cb",
                           {43, 256, 4096, 2048},
                           0,
                           33024,
                           72.6,
                           201.6,
                           153.2},
                          {"GLM-5.2-NVFP4",
                           "aec724e8c7b8ee9db3b48c01c320f63f9cdaf8aa",
                           {78, 256, 6144, 2048},
                           3,
                           57600,
                           189.8,
                           527.3,
                           400.8},
                          {"Kimi-K2.7-Code-NVFP4",
                           "9f28d60908c98034bb288e755566764eac77cc0d",
                           {61, 384, 7168, 2048},
                           1,
                           69120,
                           265.8,
                           738.3,
                           561.1},
                          {"DeepSeek-V4-Pro", "", {61, 384, 7168, 3072}, 0, 70272, 405.3, 0, 0}};
  for (const Known& known : models) {
    CAPTURE(known.name);
    const std::string file = kDirectory + "/" + known.name + ".json";
    const Profile profile = find_profile(posix(), file);
    CHECK(profile.revision == known.revision);
    CHECK(profile.geometry == known.geometry);
    CHECK(profile.first_dense == known.first_dense);
    CHECK(profile.expert_tensors == known.expert_tensors);
    const Json cache = read_json(posix(), file).at("sizes").at("1").at("planescache");
    const auto gib = [&](const char* kind) { return cache.at(kind).get<double>() / (1 << 30); };
    CHECK(std::abs(gib("none") - known.none) < 0.06);
    if (known.nibble != 0) CHECK(std::abs(gib("nibble") - known.nibble) < 0.06);
    if (known.quintal != 0) CHECK(std::abs(gib("quintal") - known.quintal) < 0.06);
  }
}

TEST_CASE("the published figures for DeepSeek-V4-Flash") {
  const Profile flash = find_profile(posix(), kDirectory + "/DeepSeek-V4-Flash.json");
  CHECK(flash.expert_tensors == 33024);
  const Profile dated = find_profile(posix(), kDirectory + "/DeepSeek-V4-Flash-0731.json");
  CHECK(dated.geometry == flash.geometry);
  CHECK(dated.revision == "9e165c30e2704aec5d9d593cce3eebd58bbef1cb");
  CHECK(dated.pins.at("ckpt_id") == "8863d864b7c75cde7493abc5899bdfe9e6dd16f6dab445961416f6e407c842b8");
}

TEST_CASE("a geometry is compared with all profiles") {
  CHECK(compare_with_profiles(posix(), {43, 256, 4096, 2048}) ==
        "matches profile DeepSeek-V4-Flash, DeepSeek-V4-Flash-0731");
  CHECK(compare_with_profiles(posix(), {43, 160, 4096, 2048}) ==
        "matches profile DeepSeek-V4-Flash-0731-REAP160");
  CHECK(compare_with_profiles(posix(), {43, 128, 4096, 2048}) ==
        "matches no profile; differs least from DeepSeek-V4-Flash: experts 128 instead of 256");
  CHECK(compare_with_profiles(posix(), {2, 3, 192, 128}).empty());
}

TEST_CASE("a profile may leave out what is not known, but not half of a geometry") {
  CHECK_FALSE(parse_profile(R"({"name": "x"})", "p").geometry);
  CHECK_THROWS_AS(parse_profile(R"({"name": "x", "geometry": {"layers": 3}})", "p"), Error);
  CHECK_THROWS_AS(parse_profile(R"({"name": "x", "geometry": 3})", "p"), Error);
  CHECK_THROWS_AS(parse_profile(R"({})", "p"), Error);
}
