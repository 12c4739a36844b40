#include "format/planescache.h"

#include <fmt/format.h>

#include "base/error.h"
#include "base/json.h"

namespace planesmith::format {
namespace {

nlohmann::ordered_json meta_object(const CacheMeta& meta) {
  nlohmann::ordered_json out;  // meta.json keeps this key order
  out["version"] = 2;
  out["quantizer_abi"] = kQuantizerAbi;
  out["ckpt_id"] = meta.ckpt_id;
  out["world"] = meta.world;
  out["rank"] = meta.rank;
  out["zero_mode"] = name(meta.zero_mode);
  if (meta.split)
    out["fp4_split"] = "w4q";
  else
    out["fp4_split"] = false;
  return out;
}

}  // namespace

std::string_view name(Fp4Tier tier) {
  switch (tier) {
    case Fp4Tier::none:
      return "none";
    case Fp4Tier::nibble:
      return "nibble";
    case Fp4Tier::quintal:
      return "quintal";
  }
  return "";
}

Fp4Tier parse_fp4_tier(std::string_view text) {
  for (const Fp4Tier tier : kFp4Tiers)
    if (name(tier) == text) return tier;
  throw Error(ErrorCode::usage, "", fmt::format("FP4 tier '{}' is not one of none, nibble, quintal", text));
}

std::string meta_json(const CacheMeta& meta) {
  return spaced(meta_object(meta));
}

std::string cache_key(const CacheMeta& meta) {
  return key_of(compact(Json(meta_object(meta))));
}

std::string cache_directory(const CacheMeta& meta) {
  return rank_directory(cache_key(meta), meta.world, meta.rank);
}

CacheMeta parse_meta(std::string_view text, const std::string& path) {
  const Json object = parse_json(text, path);
  CacheMeta meta;
  try {
    meta.ckpt_id = object.at("ckpt_id").get<std::string>();
    meta.world = whole_number(object.at("world"));
    meta.rank = whole_number(object.at("rank"));
    meta.zero_mode = parse_zero_mode(object.at("zero_mode").get<std::string>());
    meta.split = object.at("fp4_split") == "w4q";
  } catch (const std::exception&) {
    throw Error(path, "is not a planes cache's meta.json");
  }
  if (object != Json(meta_object(meta)))
    throw Error(path, fmt::format("differs from what the engine writes: found {}, expected {}", object.dump(),
                                  compact(Json(meta_object(meta)))));
  return meta;
}

std::vector<Part> cache_parts(Fp4Tier tier) {
  std::vector<Part> parts = {{"planes13", Section::planes13},
                             {"sc13", Section::sc13},
                             {"planes2", Section::planes2},
                             {"sc2", Section::sc2}};
  if (tier == Fp4Tier::nibble) parts.insert(parts.end(), {{"fp13", Section::fp13}, {"fp2", Section::fp2}});
  if (tier == Fp4Tier::quintal) parts.insert(parts.end(), {{"fp13", Section::fpq13}, {"fp2", Section::fpq2}});
  return parts;
}

}  // namespace planesmith::format
