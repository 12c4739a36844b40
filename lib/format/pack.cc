#include "format/pack.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <span>
#include <stdexcept>
#include <tuple>

#include "base/error.h"
#include "base/json.h"
#include "base/size.h"
#include "format/planes.h"

namespace planesmith::format {
namespace {

using enum Section;
constexpr Section kBaseSlot[] = {planes13, sc13, planes2, sc2}, kNibbleSlot[] = {fp13, fp2},
                  kScaledNibbleSlot[] = {fp13, sc13, fp2, sc2}, kQuintalSlot[] = {fpq13, fpq2};

struct Row {
  Tier tier;
  std::string_view name, tag;
  std::span<const Section> sections;
  std::string_view purpose;
};
constexpr Row kTable[] = {
    {Tier::base, "base", "base", kBaseSlot,
     "2-bit planes and scales, opened where the GPU is a cache of host experts"},
    {Tier::delta, "delta", "delta", kNibbleSlot, "FP4 planes, opened where the 2-bit planes live on the GPU"},
    {Tier::fp4, "fp4", "fp4", kScaledNibbleSlot,
     "FP4 planes and scales, opened where the GPU is a cache of host experts"},
    {Tier::fp4q, "fp4q", "fp4q", kQuintalSlot,
     "quintal FP4 planes, opened in split mode where the GPU is a cache of host experts"},
    {Tier::deltaq, "deltaq", "delta", kQuintalSlot,
     "quintal FP4 planes, opened in split mode where the 2-bit planes live on the GPU"},
};

const Row& row(Tier tier) {
  return *std::find_if(std::begin(kTable), std::end(kTable), [&](const Row& r) { return r.tier == tier; });
}

std::uint64_t slot_bytes(Tier tier, const RankShape& shape) {
  std::uint64_t bytes = 0;
  for (const Section section : row(tier).sections) bytes += section_bytes(section, shape);
  return bytes;
}

// The likely tier of a sidecar's tag and slot size: quintal slots are 5/8 of
// nibble slots and so are always divisible by the 5 of a quintal tile, which
// nibble slots rarely are. Throws std::invalid_argument if no tier has the tag.
Tier likely_tier(std::string_view text, std::uint64_t bytes) {
  const Row* found = nullptr;
  for (const Row& r : kTable) {
    if (r.tag != text) continue;
    const bool quintal = r.sections.front() == fpq13;
    if (found == nullptr || quintal == (bytes % (3 * kQuintalTile) == 0)) found = &r;
  }
  if (found == nullptr) throw std::invalid_argument("tag");
  return found->tier;
}

Json key_object(const PackSpec& spec) {
  return {{"E", spec.experts},
          {"ckpt_id", spec.ckpt_id},
          {"n_layers", spec.n_layers},
          {"quantizer_abi", kQuantizerAbi},
          {"slot_bytes", spec.slot_bytes},
          {"stride", spec.stride},
          {"tag", tag(spec.tier)},
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
  return row(tier).name;
}
std::string_view tag(Tier tier) {
  return row(tier).tag;
}
std::string_view purpose(Tier tier) {
  return row(tier).purpose;
}
std::vector<Section> slot_sections(Tier tier) {
  return {row(tier).sections.begin(), row(tier).sections.end()};
}

std::string tier_names() {
  std::vector<std::string_view> names;
  for (const Tier tier : kTiers) names.push_back(name(tier));
  return fmt::format("{}", fmt::join(names, ", "));
}

Tier parse_tier(std::string_view text) {
  for (const Tier tier : kTiers)
    if (name(tier) == text) return tier;
  throw Error(ErrorCode::usage, "", fmt::format("tier '{}' is not one of {}", text, tier_names()));
}

PackSpec pack_spec(Tier tier, const Geometry& geometry, const RankShape& shape, std::string ckpt_id,
                   ZeroMode mode) {
  PackSpec spec;
  spec.tier = tier;
  spec.ckpt_id = std::move(ckpt_id);
  spec.experts = geometry.experts;
  spec.n_layers = geometry.layers + geometry.drafts + 1;
  spec.slot_bytes = slot_bytes(tier, shape);
  spec.stride = round_up(spec.slot_bytes, kRowAlignment);
  spec.zero_mode = mode;
  return spec;
}

bool PackSpec::operator==(const PackSpec& other) const {
  const auto members = [](const PackSpec& s) {
    return std::tuple(tag(s.tier), std::string_view(s.ckpt_id), s.experts, s.n_layers, s.slot_bytes, s.stride,
                      s.zero_mode);
  };
  return members(*this) == members(other);
}

Tier settled_tier(const PackSpec& spec, const RankShape& shape) {
  for (const Row& r : kTable)
    if (r.tag == tag(spec.tier) && slot_bytes(r.tier, shape) == spec.slot_bytes) return r.tier;
  return spec.tier;
}

std::string pack_key(const PackSpec& spec) {
  return key_of(compact(key_object(spec)));
}

std::string pack_stem(const PackSpec& spec, std::uint64_t rank, std::uint64_t world) {
  return pack_stem(tag(spec.tier), pack_key(spec), rank, world);
}

std::string sidecar_json(const PackSpec& spec, const std::vector<std::uint64_t>& layer_keys) {
  return spaced(sidecar_object(spec, layer_keys));
}

Sidecar parse_sidecar(std::string_view text, const std::string& path) {
  const Json object = parse_json(text, path);
  Sidecar out;
  try {
    PackSpec& spec = out.spec;
    spec.ckpt_id = object.at("ckpt_id").get<std::string>();
    spec.experts = whole_number(object.at("E"));
    spec.n_layers = whole_number(object.at("n_layers"));
    spec.slot_bytes = whole_number(object.at("slot_bytes"));
    spec.stride = whole_number(object.at("stride"));
    spec.tier = likely_tier(object.at("tag").get<std::string>(), spec.slot_bytes);
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
