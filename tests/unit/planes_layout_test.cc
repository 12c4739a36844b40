// The layouts of lib/format/planes.h against the formulas of FORMAT.md section 5, and that they lose nothing.
#include <doctest/doctest.h>

#include <set>
#include <vector>

#include "format/planes.h"

using namespace planesmith::format;

TEST_CASE("quads of a tile are where the format says") {
  for (unsigned g = 0; g < 8; ++g)
    for (unsigned t = 0; t < 4; ++t)
      for (unsigned tile = 0; tile < 2; ++tile)
        for (unsigned k32 = 0; k32 < 2; ++k32)
          for (unsigned half = 0; half < 2; ++half) {
            const unsigned j = 4 * tile + 2 * k32 + half, lane = 4 * g + t;
            const QuadOrigin at = quad_origin(lane, j);
            CHECK(at.row == 8 * tile + g);
            CHECK(at.col == 32 * k32 + 16 * half + 4 * t);
          }
}

TEST_CASE("a quad's origin and its place are inverse, for every column of the quad") {
  for (unsigned row = 0; row < kTileRows; ++row)
    for (unsigned col = 0; col < kTileCols; ++col) {
      const LaneQuad at = lane_quad(row, col);
      CHECK(at.lane < kLanes);
      CHECK(at.quad < kQuads);
      const QuadOrigin origin = quad_origin(at.lane, at.quad);
      CHECK(origin.row == row);
      CHECK(origin.col == col / 4 * 4);
    }
}

TEST_CASE("every byte of a plane belongs to exactly one quad or scale") {
  for (const auto& [rows, cols] : {std::pair{16, 64}, {32, 192}, {48, 128}}) {
    const auto r = static_cast<std::uint64_t>(rows), c = static_cast<std::uint64_t>(cols);
    std::vector<int> code(code_bytes(r, c)), nibble(nibble_bytes(r, c)), scale(scale_bytes(r, c));
    for (std::uint64_t row = 0; row < r; ++row)
      for (std::uint64_t col = 0; col < c; ++col) {
        if (col % 4 == 0) {
          ++code.at(code_offset(row, col, c));
          ++nibble.at(nibble_offset(row, col, c));
          ++nibble.at(nibble_offset(row, col, c) + 1);
        }
        if (col % 32 == 0) ++scale.at(scale_offset(row, col, c));
      }
    CHECK(code == std::vector<int>(code.size(), 1));
    CHECK(nibble == std::vector<int>(nibble.size(), 1));
    CHECK(scale == std::vector<int>(scale.size(), 1));
  }
}

TEST_CASE("tiles go row panel by row panel, scales 16 rows at a time") {
  CHECK(tile_of(0, 63, 192) == 0);
  CHECK(tile_of(15, 64, 192) == 1);
  CHECK(tile_of(16, 0, 192) == 3);
  CHECK(scale_offset(5, 33, 192) == 16 + 5);
  CHECK(scale_offset(21, 160, 192) == (6 + 5) * 16 + 5);
  CHECK(code_offset(16, 64, 192) == 4 * 256);
  CHECK(nibble_offset(9, 20, 64) == 2 * ((4 + 1) * 8 + 5));
}

TEST_CASE("the lane records of a quintal tile cover it once") {
  std::vector<int> seen(kQuintalTile);
  for (unsigned lane = 0; lane < kLanes; ++lane)
    for (unsigned b = 0; b < 10; ++b) ++seen.at(quintal_record_offset(lane, b));
  CHECK(seen == std::vector<int>(seen.size(), 1));
  CHECK(quintal_record_offset(3, 7) == 31);
  CHECK(quintal_record_offset(3, 8) == 256 + 6);
}
