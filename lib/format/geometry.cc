#include "format/geometry.h"

#include <fmt/format.h>

#include "base/error.h"
#include "format/planes.h"

namespace planesmith::format {

std::string_view name(ZeroMode mode) {
  switch (mode) {
    case ZeroMode::automatic:
      return "auto";
    case ZeroMode::sign:
      return "sign";
    case ZeroMode::alt:
      return "alt";
  }
  return "";
}

ZeroMode parse_zero_mode(std::string_view text) {
  for (const ZeroMode mode : kZeroModes)
    if (name(mode) == text) return mode;
  throw Error(ErrorCode::usage, "", fmt::format("zero mode '{}' is not one of auto, sign, alt", text));
}

RankShape rank_shape(const Geometry& geometry, std::uint64_t world) {
  const auto refuse = [](std::string reason) { throw Error(ErrorCode::usage, "", std::move(reason)); };
  if (world == 0) refuse("the tensor-parallel world must be at least 1");
  if (geometry.intermediate == 0 || geometry.hidden == 0 || geometry.experts == 0)
    refuse("experts, hidden size and intermediate size must not be zero");
  if (geometry.intermediate % world != 0)
    refuse(fmt::format("intermediate size {} is not divisible by world {}", geometry.intermediate, world));
  RankShape shape;
  shape.world = world;
  shape.slice = geometry.intermediate / world;
  shape.n13 = 2 * shape.slice;
  shape.k13 = geometry.hidden;
  shape.n2 = geometry.hidden;
  shape.k2 = shape.slice;
  for (const std::uint64_t n : {shape.n13, shape.n2})
    if (n % kTileRows != 0)
      refuse(fmt::format("a matrix of {} rows per rank does not divide into tiles of 16 rows", n));
  for (const std::uint64_t k : {shape.k13, shape.k2})
    if (k % kTileCols != 0)
      refuse(fmt::format("a matrix of {} columns per rank does not divide into tiles of 64 columns", k));
  return shape;
}

std::string_view name(Section section) {
  switch (section) {
    case Section::planes13:
      return "planes13";
    case Section::sc13:
      return "sc13";
    case Section::planes2:
      return "planes2";
    case Section::sc2:
      return "sc2";
    case Section::fp13:
      return "fp13";
    case Section::fp2:
      return "fp2";
    case Section::fpq13:
      return "fpq13";
    case Section::fpq2:
      return "fpq2";
  }
  return "";
}

std::uint64_t section_bytes(Section section, const RankShape& shape) {
  switch (section) {
    case Section::planes13:
      return code_bytes(shape.n13, shape.k13);
    case Section::sc13:
      return scale_bytes(shape.n13, shape.k13);
    case Section::planes2:
      return code_bytes(shape.n2, shape.k2);
    case Section::sc2:
      return scale_bytes(shape.n2, shape.k2);
    case Section::fp13:
      return nibble_bytes(shape.n13, shape.k13);
    case Section::fp2:
      return nibble_bytes(shape.n2, shape.k2);
    case Section::fpq13:
      return quintal_bytes(shape.n13, shape.k13);
    case Section::fpq2:
      return quintal_bytes(shape.n2, shape.k2);
  }
  return 0;
}

}  // namespace planesmith::format
