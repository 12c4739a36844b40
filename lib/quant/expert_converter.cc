#include "quant/expert_converter.h"

#include <initializer_list>

#include "format/planes.h"

namespace planesmith {
namespace {

using format::Section;

// Where the next rows of the matrix go: w3's panels follow w1's.
PlaneTarget after(PlaneTarget target, std::uint64_t rows, std::uint64_t cols) {
  const auto advance = [](std::uint8_t*& at, std::uint64_t bytes) {
    if (at != nullptr) at += bytes;
  };
  advance(target.codes, format::code_bytes(rows, cols));
  advance(target.nibbles, format::nibble_bytes(rows, cols));
  advance(target.quintals, format::quintal_bytes(rows, cols));
  advance(target.scales, format::scale_bytes(rows, cols));
  return target;
}

// Converts projections that stand one below the other.
std::optional<BadElement> convert_once(const Kernels& kernels, const ExpertSlices& expert,
                                       std::initializer_list<Projection> projections, PlaneTarget target,
                                       ZeroSigns signs, ZeroCount* zeros) {
  for (const Projection projection : projections) {
    const Slice& slice = expert[static_cast<std::size_t>(projection)];
    if (!convert_slice(kernels, slice, signs, target, zeros))
      return BadElement{projection, find_nonfinite(slice)};
    std::visit([&](const auto& s) { target = after(target, s.rows, s.cols); }, slice);
  }
  return std::nullopt;
}

std::optional<BadElement> convert_matrix(const Kernels& kernels, const ExpertSlices& expert,
                                         std::initializer_list<Projection> projections, format::ZeroMode mode,
                                         const PlaneTarget& target, SignsOfZeros& signs) {
  if (!target.codes && !target.nibbles && !target.quintals && !target.scales) return std::nullopt;
  for (;;) {
    ZeroCount count;
    if (auto bad = convert_once(kernels, expert, projections, target, signs.choose(mode),
                                mode == format::ZeroMode::automatic ? &count : nullptr))
      return bad;
    if (signs.settle(mode, count)) return std::nullopt;
  }
}

}  // namespace

std::optional<BadElement> ExpertConverter::convert(const ExpertSlices& expert, format::ZeroMode mode,
                                                   const SectionTargets& targets) {
  const auto at = [&](Section section) { return targets[static_cast<std::size_t>(section)]; };
  const PlaneTarget first{at(Section::planes13), at(Section::fp13), at(Section::fpq13), at(Section::sc13)};
  const PlaneTarget second{at(Section::planes2), at(Section::fp2), at(Section::fpq2), at(Section::sc2)};
  if (auto bad = convert_matrix(kernels_, expert, {Projection::w1, Projection::w3}, mode, first, signs13_))
    return bad;
  return convert_matrix(kernels_, expert, {Projection::w2}, mode, second, signs2_);
}

}  // namespace planesmith
