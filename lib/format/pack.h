// Pack stores: file names, rows, sidecars (FORMAT.md section 7).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "format/file_names.h"
#include "format/geometry.h"

namespace planesmith::format {

// The kinds of pack; the table in pack.cc has a row for each.
enum class Tier { base, delta, fp4, fp4q, deltaq };
inline constexpr Tier kTiers[] = {Tier::base, Tier::delta, Tier::fp4, Tier::fp4q, Tier::deltaq};
std::string_view name(Tier tier);               // on the command line and in manifests
std::string_view tag(Tier tier);                // in file names, sidecars and keys; two tiers may share one
std::string_view purpose(Tier tier);            // one line of help: which engine setting opens it
std::vector<Section> slot_sections(Tier tier);  // in their order in a slot
std::string tier_names();                       // "base, delta, ...": for help and errors
Tier parse_tier(std::string_view text);         // a name; anything else is a usage Error

inline constexpr std::uint64_t kRowAlignment = 4096;

// Everything that a pack's key and size depend on.
struct PackSpec {
  Tier tier = Tier::base;
  std::string ckpt_id;
  std::uint64_t experts = 0;   // E
  std::uint64_t n_layers = 0;  // L + 1, plus the drafter blocks
  std::uint64_t slot_bytes = 0;
  std::uint64_t stride = 0;  // slot_bytes rounded up to 4096
  ZeroMode zero_mode = ZeroMode::automatic;
  bool operator==(const PackSpec& other) const;  // same key; slot_bytes distinguishes tiers that share a tag

  std::uint64_t file_bytes() const { return n_layers * experts * stride; }
  std::uint64_t row_offset(std::uint64_t layer_key, std::uint64_t expert) const {
    return (layer_key * experts + expert) * stride;
  }
};

PackSpec pack_spec(Tier tier, const Geometry& geometry, const RankShape& shape, std::string ckpt_id,
                   ZeroMode mode);
// Of the tiers with the tag of spec.tier, the one whose slots have spec.slot_bytes at this shape;
// spec.tier if none has.
Tier settled_tier(const PackSpec& spec, const RankShape& shape);

std::string pack_key(const PackSpec& spec);  // 20 hex digits
// The stem of its files' names (format/file_names.h).
std::string pack_stem(const PackSpec& spec, std::uint64_t rank, std::uint64_t world);
std::string sidecar_json(const PackSpec& spec, const std::vector<std::uint64_t>& layer_keys);  // keys sorted

struct Sidecar {
  PackSpec spec;
  std::vector<std::uint64_t> layer_keys;  // sorted; layers whose rows are durable
};
// If tiers share the tag, the returned tier is a guess from slot_bytes; settled_tier() is certain. Errors:
// not JSON, not exactly these keys, version or ABI unknown, layers not sorted, repeated or out of range.
Sidecar parse_sidecar(std::string_view text, const std::string& path);

}  // namespace planesmith::format
