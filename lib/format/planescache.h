// The planes cache: directories, part names, meta.json (FORMAT.md section 6).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "format/file_names.h"
#include "format/geometry.h"

namespace planesmith::format {

enum class Fp4Tier { none, nibble, quintal };
inline constexpr Fp4Tier kFp4Tiers[] = {Fp4Tier::none, Fp4Tier::nibble, Fp4Tier::quintal};
std::string_view name(Fp4Tier tier);            // "none", "nibble", "quintal"
Fp4Tier parse_fp4_tier(std::string_view text);  // anything else is a usage Error

// What meta.json says about one rank's directory.
struct CacheMeta {
  std::string ckpt_id;
  std::uint64_t world = 1, rank = 0;
  ZeroMode zero_mode = ZeroMode::automatic;
  bool split = false;  // quintal FP4 planes: "fp4_split": "w4q"
  bool operator==(const CacheMeta&) const = default;
};

std::string meta_json(const CacheMeta& meta);        // the exact bytes of meta.json
std::string cache_key(const CacheMeta& meta);        // 20 hex digits
std::string cache_directory(const CacheMeta& meta);  // "v2/<key>/tp<W>-rank<r>"

// Reads a meta.json. Errors: not JSON, not exactly these keys, version or ABI unknown.
CacheMeta parse_meta(std::string_view text, const std::string& path);

// One file per layer and part: one section of all experts, in the order of experts.
struct Part {
  std::string_view name;  // "planes13", ...
  Section section;
};
std::vector<Part> cache_parts(Fp4Tier tier);  // 4 or 6, in the order planes13 sc13 planes2 sc2 fp13 fp2

}  // namespace planesmith::format
