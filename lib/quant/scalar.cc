// The scalar reference: FORMAT.md sections 4 and 5 in float64, a tile at a time. Every other set of kernels
// is compared with it, and falls back to it for scales and values outside its range.
#include <algorithm>
#include <cmath>
#include <cstring>

#include "format/number.h"
#include "format/planes.h"
#include "quant/quantize_reference.h"
#include "quant/reference.h"

namespace planesmith {
namespace {

using namespace format;

// Tables over bytes; a byte of packed nibbles holds the even column below the odd one.
struct Tables {
  double e4m3[256];
  std::uint8_t codes[256];   // the 2-bit codes of both nibbles, 4 bits
  std::uint8_t digits[256];  // d + 5 d' of both nibbles
};
constexpr Tables make_tables() {
  Tables t{};
  for (unsigned b = 0; b < 256; ++b) {
    t.e4m3[b] = e4m3_value(static_cast<std::uint8_t>(b));
    t.codes[b] = static_cast<std::uint8_t>(code_of(b & 15) | code_of(b >> 4) << 2);
    t.digits[b] = static_cast<std::uint8_t>(quintal_digit(b & 15) + 5 * quintal_digit(b >> 4));
  }
  return t;
}
constexpr Tables kTables = make_tables();

constexpr double kE2m1[16] = {0,   .5,  1,  1.5,  2,  3,  4,  6,  //
                              -0., -.5, -1, -1.5, -2, -3, -4, -6};

// Loads 32 elements from (row, col) on as float64. Every product is exact. Inputs must be finite.
void load_values(const Fp8Slice& s, std::uint64_t row, std::uint64_t col, double w[kScaleCols]) {
  const std::uint8_t* weight = s.weight + row * s.weight_stride + col;
  std::uint64_t block = col / s.block_cols, left = s.block_cols - col % s.block_cols;
  double scale = block_scale(s, row / s.block_rows, block);
  for (unsigned c = 0; c < kScaleCols; ++c, --left) {
    if (left == 0) {
      scale = block_scale(s, row / s.block_rows, ++block);
      left = s.block_cols;
    }
    w[c] = kTables.e4m3[weight[c]] * scale;
  }
}
void load_values(const Nvfp4Slice& s, std::uint64_t row, std::uint64_t col, double w[kScaleCols]) {
  const std::uint8_t *weight = s.weight + row * s.weight_stride,
                     *scale = s.scale + row * s.scale_stride + col / kNvfp4Group;
  for (unsigned c = 0; c < kScaleCols; ++c)
    w[c] = kE2m1[nibble_at(weight, col + c)] * kTables.e4m3[scale[c / kNvfp4Group]] * double{s.scale_2};
}

// Fills the tile whose first element is (row, col).
ZeroCount fill(const Mxfp4Slice& s, ZeroSigns, std::uint64_t row, std::uint64_t col, QuantizedTile& tile) {
  for (unsigned r = 0; r < kTileRows; ++r) {
    std::memcpy(tile.row[r], s.weight + (row + r) * s.weight_stride + col / 2, sizeof tile.row[r]);
    std::memcpy(tile.scale[r], s.scale + (row + r) * s.scale_stride + col / kScaleCols, sizeof tile.scale[r]);
  }
  return {};
}

template <typename Slice>
ZeroCount fill(const Slice& s, ZeroSigns signs, std::uint64_t row, std::uint64_t col, QuantizedTile& tile) {
  ZeroCount count;
  for (unsigned r = 0; r < kTileRows; ++r)
    for (unsigned first = 0; first < kTileCols; first += kScaleCols) {
      double w[kScaleCols], amax = 0;
      load_values(s, row + r, col + first, w);
      for (const double value : w) amax = std::max(amax, std::fabs(value));
      const int x = scale_exponent(amax);
      const double inverse = power_of_two(-x);
      tile.scale[r][first / kScaleCols] = static_cast<std::uint8_t>(x + 127);
      unsigned nibble[kScaleCols];
      for (unsigned c = 0; c < kScaleCols; ++c) {
        const double u = w[c] * inverse;
        unsigned sign = std::signbit(u);
        if (u == 0) {
          ++count.zeros;
          count.negative += sign;
          if (signs == ZeroSigns::alternate) sign = c & 1;
        }
        nibble[c] = magnitude_index(std::fabs(u)) | sign << 3;
      }
      for (unsigned c = 0; c < kScaleCols; c += 2)
        tile.row[r][(first + c) / 2] = static_cast<std::uint8_t>(nibble[c] | nibble[c + 1] << 4);
    }
  return count;
}

// Packs a tile's nibbles into each plane that is wanted; pointers address the tile.
void store(const QuantizedTile& tile, std::uint8_t* codes, std::uint8_t* nibbles, std::uint8_t* quintals) {
  if (quintals != nullptr) std::memset(quintals, 0, kQuintalTile);
  for (unsigned lane = 0; lane < kLanes; ++lane)
    for (unsigned j = 0; j < kQuads; ++j) {
      const QuadOrigin at = quad_origin(lane, j);
      const std::uint8_t *quad = &tile.row[at.row][at.col / 2], low = quad[0], high = quad[1];
      const unsigned to = lane * static_cast<unsigned>(kQuads) + j;
      if (codes != nullptr)
        codes[to] = static_cast<std::uint8_t>(kTables.codes[low] | kTables.codes[high] << 4);
      if (nibbles != nullptr) {
        nibbles[2 * to] = low;
        nibbles[2 * to + 1] = high;
      }
      if (quintals != nullptr) {
        const unsigned word = kTables.digits[low] + 25u * kTables.digits[high];
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
bool convert(const Slice& s, ZeroSigns signs, const PlaneTarget& to, ZeroCount* zeros) {
  if (find_nonfinite(s).found) return false;
  ZeroCount count;
  std::uint64_t index = 0;
  for (std::uint64_t row = 0; row < s.rows; row += kTileRows)
    for (std::uint64_t col = 0; col < s.cols; col += kTileCols, ++index) {
      QuantizedTile tile;
      count += fill(s, signs, row, col, tile);
      store(tile, advance(to.codes, index * kCodeTile), advance(to.nibbles, index * kNibbleTile),
            advance(to.quintals, index * kQuintalTile));
      if (to.scales == nullptr) continue;
      for (unsigned r = 0; r < kTileRows; ++r)
        for (unsigned c = 0; c < kTileCols; c += kScaleCols)
          to.scales[scale_offset(row + r, col + c, s.cols)] = tile.scale[r][c / kScaleCols];
    }
  if (zeros != nullptr) *zeros += count;
  return true;
}

bool mxfp4(const Mxfp4Slice& s, const PlaneTarget& to) noexcept {
  return convert(s, ZeroSigns::keep, to, nullptr);
}
bool fp8(const Fp8Slice& s, ZeroSigns signs, const PlaneTarget& to, ZeroCount* zeros) noexcept {
  return convert(s, signs, to, zeros);
}
bool nvfp4(const Nvfp4Slice& s, ZeroSigns signs, const PlaneTarget& to, ZeroCount* zeros) noexcept {
  return std::isfinite(s.scale_2) && convert(s, signs, to, zeros);
}

void from_nibbles(const std::uint8_t* nibbles, std::uint64_t tiles, std::uint8_t* codes,
                  std::uint8_t* quintals) noexcept {
  for (std::uint64_t index = 0; index < tiles; ++index) {
    QuantizedTile tile;
    for (unsigned lane = 0; lane < kLanes; ++lane)
      for (unsigned j = 0; j < kQuads; ++j) {
        const QuadOrigin at = quad_origin(lane, j);
        std::memcpy(&tile.row[at.row][at.col / 2], nibbles + index * kNibbleTile + 2 * (lane * kQuads + j),
                    2);
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

double block_scale(const Fp8Slice& s, std::uint64_t block_row, std::uint64_t block_col) {
  const std::uint8_t* blocks = s.scale + block_row * s.scale_stride;
  return scale_value(s.scale_type, scale_bits(s.scale_type, blocks + block_col * scale_size(s.scale_type)));
}

ZeroCount quantize_tile(const Fp8Slice& s, ZeroSigns signs, std::uint64_t row, std::uint64_t col,
                        QuantizedTile& tile) {
  return fill(s, signs, row, col, tile);
}

NonFinite find_nonfinite(const Mxfp4Slice& s) noexcept {
  return find(s.rows, s.cols / kMxfp4Group, true, [&](std::uint64_t row, std::uint64_t col) {
    return e8m0_is_nan(s.scale[row * s.scale_stride + col]);
  });
}

NonFinite find_nonfinite(const Fp8Slice& s) noexcept {
  const NonFinite weight = find(s.rows, s.cols, false, [&](std::uint64_t row, std::uint64_t col) {
    return e4m3_is_nan(s.weight[row * s.weight_stride + col]);
  });
  if (weight.found) return weight;
  const std::uint64_t size = scale_size(s.scale_type);
  return find(s.scale_rows(), s.scale_row_bytes() / size, true, [&](std::uint64_t row, std::uint64_t col) {
    const std::uint8_t* at = s.scale + row * s.scale_stride + col * size;
    return !scale_is_finite(s.scale_type, scale_bits(s.scale_type, at));
  });
}

NonFinite find_nonfinite(const Nvfp4Slice& s) noexcept {
  return find(s.rows, s.cols / kNvfp4Group, true, [&](std::uint64_t row, std::uint64_t col) {
    return e4m3_is_nan(s.scale[row * s.scale_stride + col]);
  });
}

const Kernels kScalarKernels = {"scalar",
                                mxfp4,
                                fp8,
                                nvfp4,
                                from_nibbles,
                                histogram,
                                remap,
                                scalar_max_magnitude,
                                scalar_to_nvfp4,
                                scalar_to_mxfp4,
                                scalar_add_errors};

}  // namespace planesmith
