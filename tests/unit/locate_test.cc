// From a byte of a section back to the checkpoint's element, for every kind of section.
#include "store/locate.h"

#include <doctest/doctest.h>

#include <random>
#include <vector>

#include "format/planes.h"

using namespace planesmith;
using format::Section;

namespace {

// World 2: 128 rows of w1, then 128 of w3; w2 is [192, 128].
const format::RankShape kShape = format::rank_shape({1, 1, 192, 256}, 2);

// Where a byte of the section says that element (row, col) of the matrix is.
bool holds(Section section, std::uint64_t byte, std::uint64_t row, std::uint64_t col, std::uint64_t cols) {
  using namespace format;
  switch (section) {
    case Section::planes13:
    case Section::planes2:
      return byte == code_offset(row, col, cols);
    case Section::fp13:
    case Section::fp2:
      return byte == nibble_offset(row, col, cols) + col % 4 / 2;
    case Section::sc13:
    case Section::sc2:
      return byte == scale_offset(row, col, cols);
    case Section::fpq13:
    case Section::fpq2: {
      const std::uint64_t tile = tile_of(row, col, cols) * kQuintalTile;
      const LaneQuad at = lane_quad(row % 16, col % 64);
      return byte == tile + quintal_record_offset(at.lane, 10 * at.quad / 8) ||
             byte == tile + quintal_record_offset(at.lane, 10 * at.quad / 8 + 1);
    }
  }
  return false;
}

}  // namespace

TEST_CASE("one changed byte is found in the element that it holds") {
  std::mt19937 random(7);
  for (const Section section : {Section::planes13, Section::sc13, Section::planes2, Section::sc2,
                                Section::fp13, Section::fp2, Section::fpq13, Section::fpq2}) {
    CAPTURE(static_cast<int>(section));
    const std::string name(format::name(section));
    const bool is_13 = name.ends_with("13");
    const std::uint64_t cols = is_13 ? kShape.k13 : kShape.k2;
    std::vector<std::uint8_t> expected(format::section_bytes(section, kShape));
    for (std::uint8_t& byte : expected) byte = static_cast<std::uint8_t>(random());
    for (int i = 0; i < 300; ++i) {
      std::vector<std::uint8_t> found = expected;
      const std::uint64_t at = random() % found.size(), rank = random() % 2;
      found[at] ^= static_cast<std::uint8_t>(1u << random() % 8);
      const Element element = first_difference(section, kShape, rank, found, expected);
      CHECK(element.scale == name.starts_with("sc"));
      CHECK(element.found != element.expected);
      std::uint64_t row = element.row, col = element.col;
      if (is_13)
        row = row - rank * kShape.slice + (element.projection == Projection::w3 ? kShape.slice : 0);
      else
        col -= rank * kShape.slice;
      CHECK((element.projection == Projection::w2) != is_13);
      CHECK(holds(section, at, row, col, cols));
    }
  }
}

TEST_CASE("of several differences the first row counts, then the first column") {
  std::vector<std::uint8_t> expected(format::section_bytes(Section::fp13, kShape)), found = expected;
  found[format::nibble_offset(9, 3, 192)] = 0x02;  // in an earlier tile than the next change
  found[format::nibble_offset(8, 190, 192) + 1] = 0xB0;
  const Element element = first_difference(Section::fp13, kShape, 1, found, expected);
  CHECK(element.projection == Projection::w1);
  CHECK(element.row == 128 + 8);
  CHECK(element.col == 191);
  CHECK(element.found == "nibble 0xb (-1.5)");
  CHECK(element.expected == "nibble 0x0 (+0)");
}

TEST_CASE("values as text") {
  const auto words = [](Section section, std::uint64_t at, std::uint8_t byte) {
    std::vector<std::uint8_t> expected(format::section_bytes(section, kShape)), found = expected;
    found[at] = byte;
    const Element element = first_difference(section, kShape, 0, found, expected);
    return element.found + ", " + element.expected;
  };
  CHECK(words(Section::planes2, 0, 0x03) == "code 3 (+4), code 0 (-4)");
  CHECK(words(Section::sc2, 0, 0x79) == "scale byte 121 (2^-6), scale byte 0 (2^-127)");
  CHECK(words(Section::fpq2, 0, 7) == "digit 2, digit 0");
}
