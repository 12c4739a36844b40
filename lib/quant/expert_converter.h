// Whole experts on the CPU.
#pragma once

#include <array>
#include <cstdint>
#include <optional>

#include "checkpoint/model.h"
#include "format/geometry.h"
#include "quant/kernels.h"
#include "quant/zero_signs.h"

namespace planesmith {

// One expert's part of one rank, indexed by Projection: rows of w1 and w3, columns of w2; all of one family.
using ExpertSlices = std::array<Slice, kProjections>;

// Where each section goes, indexed by format::Section, each of section_bytes(); null: not wanted.
using SectionTargets = std::array<std::uint8_t*, format::kSections>;

// A NaN or an infinity, and the projection it was found in.
struct BadElement {
  Projection projection = Projection::w1;
  NonFinite where;
};

class ExpertConverter {
 public:
  explicit ExpertConverter(const Kernels& kernels) : kernels_(kernels) {}

  // Fills the targets; returns the first non-finite element where there is one (the targets' contents are
  // then unspecified). FORMAT.md section 4: the zero mode touches requantized families only, and mode auto
  // judges w1 and w3 together.
  std::optional<BadElement> convert(const ExpertSlices& expert, format::ZeroMode mode,
                                    const SectionTargets& targets);

 private:
  const Kernels& kernels_;
  SignsOfZeros signs13_, signs2_;
};

}  // namespace planesmith
