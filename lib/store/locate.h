// Maps a byte of a section back to the element of the checkpoint that it came from (the inverse of FORMAT.md
// sections 3 and 5).
#pragma once

#include <cstdint>
#include <string>

#include "base/file.h"
#include "checkpoint/model.h"
#include "format/geometry.h"

namespace planesmith {

// The first element, by row and then column, in which two versions of one expert's section differ.
struct Element {
  Projection projection = Projection::w1;
  bool scale = false;              // a scale byte, which covers 32 columns; else a weight
  std::uint64_t row = 0, col = 0;  // in the whole weight tensor (all ranks); for a scale its first column
  std::string found, expected;     // "code 2 (+1)", "nibble 0xb (-1.5)", "digit 3", "scale byte 121 (2^-6)"
};

// found and expected: the section's bytes, section_bytes() each; they must differ.
Element first_difference(format::Section section, const format::RankShape& shape, std::uint64_t rank,
                         ConstBytes found, ConstBytes expected);

}  // namespace planesmith
