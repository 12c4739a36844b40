// The reference: FORMAT.md sections 4 and 5 said once, in float64, a tile at a time. It is what every other
// set of kernels is measured against and what they fall back to for shapes that they do not take.
#include <array>
#include <cmath>
#include <cstring>

#include "format/number.h"
#include "format/planes.h"
#include "quant/reference.h"

namespace planesmith {
namespace {

using namespace format;

constexpr std::array<double, 256> make_e4m3_table() {
  std::array<double, 256> table{};
  for (unsigned b = 0; b < 256; ++b) table[b] = e4m3_value(static_cast<std::uint8_t>(b));
  return table;
}
constexpr std::array<double, 256> kE4m3 = make_e4m3_table();

constexpr double kE2m1[16] = {0,   .5,  1,  1.5,  2,  3,  4,  6,  //
                              -0., -.5, -1, -1.5, -2, -3, -4, -6};

float load_f32(const std::uint8_t* at) {
  float value;
  std::memcpy(&value, at, sizeof value);
  return value;
}

// Element (row, col) as float64; every product is exact. Only for finite inputs.
double value_at(const Fp8Slice& s, std::uint64_t row, std::uint64_t col) {
  return kE4m3[s.weight[row * s.weight_stride + col]] * block_scale(s, row, col);
}
double value_at(const Nvfp4Slice& s, std::uint64_t row, std::uint64_t col) {
  return kE2m1[nibble_at(s.weight + row * s.weight_stride, col)] *
         kE4m3[s.scale[row * s.scale_stride + col / 16]] * double{s.scale_2};
}

// The tile whose first element is (row, col).
ZeroCount fill(const Mxfp4Slice& s, ZeroSigns, std::uint64_t row, std::uint64_t col, QuantizedTile& tile) {
  for (unsigned r = 0; r < kTileRows; ++r) {
    const std::uint8_t* weight = s.weight + (row + r) * s.weight_stride;
    for (unsigned c = 0; c < kTileCols; ++c)
      tile.nibble[r][c] = static_cast<std::uint8_t>(nibble_at(weight, col + c));
    std::memcpy(tile.scale[r], s.scale + (row + r) * s.scale_stride + col / kScaleCols, sizeof tile.scale[r]);
  }
  return {};
}

template <typename Slice>
ZeroCount fill(const Slice& s, ZeroSigns zeros, std::uint64_t row, std::uint64_t col, QuantizedTile& tile) {
  ZeroCount count;
  for (unsigned r = 0; r < kTileRows; ++r)
    for (unsigned first = 0; first < kTileCols; first += kScaleCols) {
      double w[kScaleCols], amax = 0;
      for (unsigned c = 0; c < kScaleCols; ++c) {
        w[c] = value_at(s, row + r, col + first + c);
        amax = std::fmax(amax, std::fabs(w[c]));
      }
      const int x = scale_exponent(amax);
      const double inverse = power_of_two(-x);
      tile.scale[r][first / kScaleCols] = static_cast<std::uint8_t>(x + 127);
      for (unsigned c = 0; c < kScaleCols; ++c) {
        const double u = w[c] * inverse;
        unsigned sign = std::signbit(u);
        if (u == 0) {
          ++count.zeros;
          count.negative += sign;
          if (zeros == ZeroSigns::alternate) sign = c & 1;
        }
        tile.nibble[r][first + c] = static_cast<std::uint8_t>(magnitude_index(std::fabs(u)) | sign << 3);
      }
    }
  return count;
}

// Packs a tile's nibbles into each plane that is wanted; pointers address the tile.
void store(const std::uint8_t nibble[kTileRows][kTileCols], std::uint8_t* codes, std::uint8_t* nibbles,
           std::uint8_t* quintals) {
  if (quintals != nullptr) std::memset(quintals, 0, kQuintalTile);
  for (unsigned lane = 0; lane < kLanes; ++lane)
    for (unsigned j = 0; j < kQuads; ++j) {
      const QuadOrigin at = quad_origin(lane, j);
      unsigned code = 0, fp4 = 0, word = 0;
      for (unsigned c = kQuadCols; c-- > 0;) {
        const unsigned n = nibble[at.row][at.col + c];
        code = code << 2 | code_of(n);
        fp4 = fp4 << 4 | n;
        word = word * 5 + quintal_digit(n);
      }
      if (codes != nullptr) codes[lane * kQuads + j] = static_cast<std::uint8_t>(code);
      if (nibbles != nullptr) {
        nibbles[2 * (lane * kQuads + j)] = static_cast<std::uint8_t>(fp4);
        nibbles[2 * (lane * kQuads + j) + 1] = static_cast<std::uint8_t>(fp4 >> 8);
      }
      if (quintals != nullptr) {
        const unsigned first = 10 * j / 8, shifted = word << 10 * j % 8;
        quintals[quintal_record_offset(lane, first)] |= static_cast<std::uint8_t>(shifted);
        quintals[quintal_record_offset(lane, first + 1)] |= static_cast<std::uint8_t>(shifted >> 8);
      }
    }
}

std::uint8_t* advance(std::uint8_t* plane, std::uint64_t bytes) {
  return plane == nullptr ? nullptr : plane + bytes;
}

template <typename Slice>
bool convert(const Slice& s, ZeroSigns zeros, const PlaneTarget& to) {
  if (find_nonfinite(s).found) return false;
  ZeroCount count;
  std::uint64_t index = 0;
  for (std::uint64_t row = 0; row < s.rows; row += kTileRows)
    for (std::uint64_t col = 0; col < s.cols; col += kTileCols, ++index) {
      QuantizedTile tile;
      count += fill(s, zeros, row, col, tile);
      store(tile.nibble, advance(to.codes, index * kCodeTile), advance(to.nibbles, index * kNibbleTile),
            advance(to.quintals, index * kQuintalTile));
      if (to.scales == nullptr) continue;
      for (unsigned r = 0; r < kTileRows; ++r)
        for (unsigned c = 0; c < kTileCols; c += kScaleCols)
          to.scales[scale_offset(row + r, col + c, s.cols)] = tile.scale[r][c / kScaleCols];
    }
  if (to.zeros != nullptr) *to.zeros += count;
  return true;
}

bool mxfp4(const Mxfp4Slice& s, const PlaneTarget& to) noexcept {
  return convert(s, ZeroSigns::keep, to);
}
bool fp8(const Fp8Slice& s, ZeroSigns zeros, const PlaneTarget& to) noexcept {
  return convert(s, zeros, to);
}
bool nvfp4(const Nvfp4Slice& s, ZeroSigns zeros, const PlaneTarget& to) noexcept {
  return std::isfinite(s.scale_2) && convert(s, zeros, to);
}

void from_nibbles(const std::uint8_t* nibbles, std::uint64_t tiles, std::uint8_t* codes,
                  std::uint8_t* quintals) noexcept {
  for (std::uint64_t index = 0; index < tiles; ++index) {
    std::uint8_t tile[kTileRows][kTileCols];
    for (unsigned lane = 0; lane < kLanes; ++lane)
      for (unsigned j = 0; j < kQuads; ++j) {
        const QuadOrigin at = quad_origin(lane, j);
        const std::uint8_t* quad = nibbles + index * kNibbleTile + 2 * (lane * kQuads + j);
        for (unsigned c = 0; c < kQuadCols; ++c)
          tile[at.row][at.col + c] = static_cast<std::uint8_t>(nibble_at(quad, c));
      }
    store(tile, advance(codes, index * kCodeTile), nullptr, advance(quintals, index * kQuintalTile));
  }
}

void histogram(const std::uint8_t* data, std::size_t n, std::uint64_t counts[16]) noexcept {
  for (std::size_t i = 0; i < n; ++i) {
    ++counts[data[i] & 15];
    ++counts[data[i] >> 4];
  }
}

void remap(std::uint8_t* data, std::size_t n, const std::uint8_t map[16]) noexcept {
  for (std::size_t i = 0; i < n; ++i)
    data[i] = static_cast<std::uint8_t>(map[data[i] & 15] | map[data[i] >> 4] << 4);
}

// The first element of a rows x cols array for which bad(row, col) holds.
template <typename Bad>
NonFinite find(std::uint64_t rows, std::uint64_t cols, bool in_scale, const Bad& bad) {
  for (std::uint64_t row = 0; row < rows; ++row)
    for (std::uint64_t col = 0; col < cols; ++col)
      if (bad(row, col)) return {true, in_scale, row, col};
  return {};
}

}  // namespace

double block_scale(const Fp8Slice& s, std::uint64_t row, std::uint64_t col) {
  const std::uint8_t* blocks = s.scale + row / s.block_rows * s.scale_stride;
  const std::uint64_t at = col / s.block_cols;
  return s.scale_is_e8m0 ? e8m0_value(blocks[at]) : double{load_f32(blocks + 4 * at)};
}

ZeroCount quantize_tile(const Fp8Slice& s, ZeroSigns zeros, std::uint64_t row, std::uint64_t col,
                        QuantizedTile& tile) {
  return fill(s, zeros, row, col, tile);
}

NonFinite find_nonfinite(const Mxfp4Slice& s) noexcept {
  return find(s.rows, s.cols / kScaleCols, true, [&](std::uint64_t row, std::uint64_t col) {
    return e8m0_is_nan(s.scale[row * s.scale_stride + col]);
  });
}

NonFinite find_nonfinite(const Fp8Slice& s) noexcept {
  const NonFinite weight = find(s.rows, s.cols, false, [&](std::uint64_t row, std::uint64_t col) {
    return e4m3_is_nan(s.weight[row * s.weight_stride + col]);
  });
  if (weight.found) return weight;
  const std::uint64_t block_rows = (s.rows + s.block_rows - 1) / s.block_rows;
  const std::uint64_t block_cols = (s.cols + s.block_cols - 1) / s.block_cols;
  return find(block_rows, block_cols, true, [&](std::uint64_t row, std::uint64_t col) {
    const std::uint8_t* blocks = s.scale + row * s.scale_stride;
    return s.scale_is_e8m0 ? e8m0_is_nan(blocks[col]) : !std::isfinite(load_f32(blocks + 4 * col));
  });
}

NonFinite find_nonfinite(const Nvfp4Slice& s) noexcept {
  return find(s.rows, s.cols / 16, true, [&](std::uint64_t row, std::uint64_t col) {
    return e4m3_is_nan(s.scale[row * s.scale_stride + col]);
  });
}

namespace {
template <typename Slice>
ZeroCount count_zeros(const Slice& s) {
  ZeroCount count;
  for (std::uint64_t row = 0; row < s.rows; ++row)
    for (std::uint64_t col = 0; col < s.cols; ++col) {
      const double w = value_at(s, row, col);
      count.zeros += w == 0;
      count.negative += w == 0 && std::signbit(w);
    }
  return count;
}
}  // namespace
ZeroCount fp8_zeros(const Fp8Slice& s) noexcept {
  return count_zeros(s);
}
ZeroCount nvfp4_zeros(const Nvfp4Slice& s) noexcept {
  return count_zeros(s);
}

const Kernels kScalarKernels = {"scalar",    mxfp4,        fp8,       nvfp4, fp8_zeros,
                                nvfp4_zeros, from_nibbles, histogram, remap};

}  // namespace planesmith
