#include "format/pack.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"
#include "base/hash.h"
#include "base/json.h"
#include "base/size.h"

namespace planesmith::format {
namespace {

Json key_object(const PackSpec& spec) {
  return {{"E", spec.experts},
          {"ckpt_id", spec.ckpt_id},
          {"n_layers", spec.n_layers},
          {"quantizer_abi", kQuantizerAbi},
          {"slot_bytes", spec.slot_bytes},
          {"stride", spec.stride},
          {"tag", name(spec.tier)},
          {"zero_mode", name(spec.zero_mode)}};
}

Json sidecar_object(const PackSpec& spec, std::vector<std::uint64_t> layer_keys) {
  std::sort(layer_keys.begin(), layer_keys.end());
  Json object = key_object(spec);
  object["layers"] = std::move(layer_keys);
  object["version"] = 2;
  return object;
}

}  // namespace

std::string_view name(Tier tier) {
  switch (tier) {
    case Tier::base:
      return "base";
    case Tier::delta:
      return "delta";
    case Tier::fp4:
      return "fp4";
    case Tier::fp4q:
      return "fp4q";
  }
  return "";
}

Tier parse_tier(std::string_view text) {
  for (const Tier tier : kTiers)
    if (name(tier) == text) return tier;
  throw Error(ErrorCode::usage, "", fmt::format("tier '{}' is none of base, delta, fp4, fp4q", text));
}

std::string_view purpose(Tier tier) {
  switch (tier) {
    case Tier::base:
      return "2-bit planes and scales, opened where the GPU is a cache of host experts, and in split mode";
    case Tier::delta:
      return "FP4 planes, opened where the 2-bit planes live on the GPU";
    case Tier::fp4:
      return "FP4 planes and scales, opened where the GPU is a cache of host experts";
    case Tier::fp4q:
      return "FP4 planes less what the 2-bit codes tell (quintal), opened in split mode";
  }
  return "";
}

std::vector<Section> slot_sections(Tier tier) {
  using enum Section;
  switch (tier) {
    case Tier::base:
      return {planes13, sc13, planes2, sc2};
    case Tier::delta:
      return {fp13, fp2};
    case Tier::fp4:
      return {fp13, sc13, fp2, sc2};
    case Tier::fp4q:
      return {fpq13, fpq2};
  }
  return {};
}

PackSpec pack_spec(Tier tier, const Geometry& geometry, const RankShape& shape, std::string ckpt_id,
                   ZeroMode mode) {
  PackSpec spec;
  spec.tier = tier;
  spec.ckpt_id = std::move(ckpt_id);
  spec.experts = geometry.experts;
  spec.n_layers = geometry.layers + 1;
  for (const Section section : slot_sections(tier)) spec.slot_bytes += section_bytes(section, shape);
  spec.stride = round_up(spec.slot_bytes, kRowAlignment);
  spec.zero_mode = mode;
  return spec;
}

std::string pack_key(const PackSpec& spec) {
  return sha256_hex(compact(key_object(spec))).substr(0, 20);
}

std::string pack_stem(const PackSpec& spec, std::uint64_t rank, std::uint64_t world) {
  return fmt::format("{}.v2.{}.rank{}of{}", name(spec.tier), pack_key(spec), rank, world);
}

std::string sidecar_json(const PackSpec& spec, const std::vector<std::uint64_t>& layer_keys) {
  return spaced(sidecar_object(spec, layer_keys));
}

Sidecar parse_sidecar(std::string_view text, const std::string& path) {
  const Json object = parse_json(text, path);
  Sidecar out;
  try {
    PackSpec& spec = out.spec;
    spec.tier = parse_tier(object.at("tag").get<std::string>());
    spec.ckpt_id = object.at("ckpt_id").get<std::string>();
    spec.experts = whole_number(object.at("E"));
    spec.n_layers = whole_number(object.at("n_layers"));
    spec.slot_bytes = whole_number(object.at("slot_bytes"));
    spec.stride = whole_number(object.at("stride"));
    spec.zero_mode = parse_zero_mode(object.at("zero_mode").get<std::string>());
    for (const Json& key : object.at("layers")) out.layer_keys.push_back(whole_number(key));
  } catch (const std::exception&) {
    throw Error(path, "is not a pack's sidecar");
  }
  if (object != sidecar_object(out.spec, out.layer_keys))
    throw Error(path, fmt::format("differs from what the engine writes: {}", object.dump()));
  for (const std::uint64_t key : out.layer_keys)
    if (key >= out.spec.n_layers)
      throw Error(path, fmt::format("lists layer {} of {}", key, out.spec.n_layers));
  if (std::adjacent_find(out.layer_keys.begin(), out.layer_keys.end()) != out.layer_keys.end())
    throw Error(path, "lists a layer twice");
  return out;
}

}  // namespace planesmith::format
