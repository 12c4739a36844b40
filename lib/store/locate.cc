#include "store/locate.h"

#include <fmt/format.h>

#include <algorithm>

#include "format/number.h"
#include "format/planes.h"

namespace planesmith {
namespace {

using namespace format;

enum class Kind { codes, nibbles, quintals, scales };

Kind kind_of(Section section) {
  switch (section) {
    case Section::planes13:
    case Section::planes2:
      return Kind::codes;
    case Section::fp13:
    case Section::fp2:
      return Kind::nibbles;
    case Section::fpq13:
    case Section::fpq2:
      return Kind::quintals;
    case Section::sc13:
    case Section::sc2:
      return Kind::scales;
  }
  return Kind::scales;
}

bool is_13(Section section) {
  return section == Section::planes13 || section == Section::sc13 || section == Section::fp13 ||
         section == Section::fpq13;
}

// The stored value of (row, col) of a matrix with `cols` columns. A quintal word above 624 is invalid; its
// last digit is then above 4.
unsigned value_at(Kind kind, ConstBytes plane, std::uint64_t row, std::uint64_t col, std::uint64_t cols) {
  const auto c = static_cast<unsigned>(col % kQuadCols);
  switch (kind) {
    case Kind::codes:
      return plane[code_offset(row, col, cols)] >> 2 * c & 3u;
    case Kind::nibbles:
      return plane[nibble_offset(row, col, cols) + c / 2] >> 4 * (c % 2) & 15u;
    case Kind::quintals: {
      const LaneQuad at =
          lane_quad(static_cast<unsigned>(row % kTileRows), static_cast<unsigned>(col % kTileCols));
      const ConstBytes tile = plane.subspan(tile_of(row, col, cols) * kQuintalTile, kQuintalTile);
      const unsigned bit = 10 * at.quad;
      const unsigned low = tile[quintal_record_offset(at.lane, bit / 8)];
      const unsigned high = tile[quintal_record_offset(at.lane, bit / 8 + 1)];
      unsigned word = ((high << 8 | low) >> bit % 8) & 1023u;
      for (unsigned i = 0; i < c; ++i) word /= 5;
      return c == 3 ? word : word % 5;
    }
    case Kind::scales:
      return plane[scale_offset(row, col, cols)];
  }
  return 0;
}

std::string shown(Kind kind, unsigned value) {
  switch (kind) {
    case Kind::codes:
      return fmt::format("code {} ({:+})", value, level_of(value));
    case Kind::nibbles:
      return fmt::format("nibble {:#x} ({}{})", value, value & 8 ? "-" : "+",
                         twice_magnitude(value & 7) / 2.0);
    case Kind::quintals:
      return fmt::format("digit {}", value);
    case Kind::scales:
      return fmt::format("scale byte {} (2^{})", value, static_cast<int>(value) - 127);
  }
  return "";
}

// The 16-row panel that holds byte `at` of a section.
std::uint64_t panel_of(Kind kind, std::uint64_t at, std::uint64_t cols) {
  switch (kind) {
    case Kind::codes:
      return at / code_bytes(kTileRows, cols);
    case Kind::nibbles:
      return at / nibble_bytes(kTileRows, cols);
    case Kind::quintals:
      return at / quintal_bytes(kTileRows, cols);
    case Kind::scales:
      return at / scale_bytes(kTileRows, cols);
  }
  return 0;
}

}  // namespace

Element first_difference(Section section, const RankShape& shape, std::uint64_t rank, ConstBytes found,
                         ConstBytes expected) {
  const Kind kind = kind_of(section);
  const std::uint64_t cols = is_13(section) ? shape.k13 : shape.k2;
  const auto at = static_cast<std::uint64_t>(
      std::mismatch(found.begin(), found.end(), expected.begin()).first - found.begin());
  // Panels are in order of rows, so the first differing byte is in the first differing panel.
  const std::uint64_t first_row = panel_of(kind, at, cols) * kTileRows,
                      step = kind == Kind::scales ? kScaleCols : 1;
  Element out;
  out.scale = kind == Kind::scales;
  for (std::uint64_t row = first_row; row < first_row + kTileRows; ++row)
    for (std::uint64_t col = 0; col < cols; col += step) {
      const unsigned here = value_at(kind, found, row, col, cols),
                     there = value_at(kind, expected, row, col, cols);
      if (here == there) continue;
      out.found = shown(kind, here);
      out.expected = shown(kind, there);
      if (!is_13(section)) {
        out.projection = Projection::w2;
        out.row = row;
        out.col = rank * shape.slice + col;
      } else {
        out.projection = row < shape.slice ? Projection::w1 : Projection::w3;
        out.row = rank * shape.slice + row % shape.slice;
        out.col = col;
      }
      return out;
    }
  return out;
}

}  // namespace planesmith
