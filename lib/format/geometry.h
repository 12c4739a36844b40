// Sizes that follow from a model's geometry and the tensor-parallel world (FORMAT.md section 3).
#pragma once

#include <cstdint>
#include <string_view>

#include "format/limits.h"

namespace planesmith::format {

inline constexpr std::string_view kQuantizerAbi = "tsym4-e8m0-fragmajor-a32-v2";

enum class ZeroMode { automatic, sign, alt };
inline constexpr ZeroMode kZeroModes[] = {ZeroMode::automatic, ZeroMode::sign, ZeroMode::alt};
std::string_view name(ZeroMode mode);             // "auto", "sign", "alt"
ZeroMode parse_zero_mode(std::string_view text);  // anything else is a usage Error

// The routed experts of a model. L includes dense layers. Converted drafter blocks are layers L, L + 1, ...
struct Geometry {
  std::uint64_t layers = 0;        // L
  std::uint64_t experts = 0;       // E
  std::uint64_t hidden = 0;        // H
  std::uint64_t intermediate = 0;  // I
  std::uint64_t drafts = 0;        // converted DSpark blocks
  bool operator==(const Geometry&) const = default;
};

// One expert's two matrices on one rank: w13 [2i, H] and w2 [H, i], i = I / world.
struct RankShape {
  std::uint64_t world = 1;
  std::uint64_t slice = 0;  // i
  std::uint64_t n13 = 0, k13 = 0, n2 = 0, k2 = 0;
};

// Errors (usage): I not divisible by world, an N not divisible by 16, a K not by 64.
RankShape rank_shape(const Geometry& geometry, std::uint64_t world);

// The eight kinds of section that one expert can have: planes and scales of each of its two matrices.
enum class Section { planes13, sc13, planes2, sc2, fp13, fp2, fpq13, fpq2 };
inline constexpr int kSections = 8;
std::string_view name(Section section);                                // "planes13", ..., "fpq2"
std::uint64_t section_bytes(Section section, const RankShape& shape);  // of one expert

}  // namespace planesmith::format
