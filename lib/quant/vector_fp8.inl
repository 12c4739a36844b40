// Part of each file of vector kernels: FP8 by the rules of log_code.h, a tile at a time.

// Zeros before any balancing, in 64-bit sums.
struct ZeroSums {
  V zeros, negative;
  OP ZeroSums() : zeros(bytes(0)), negative(bytes(0)) {}
  OP void add_to(ZeroCount* count) const {
    if (count == nullptr) return;
    alignas(64) std::uint64_t sums[2][kV / 8];
    std::memcpy(sums[0], &zeros, kV);
    std::memcpy(sums[1], &negative, kV);
    for (unsigned i = 0; i < kV / 8; ++i) *count += ZeroCount{sums[0][i], sums[1][i]};
  }
};

// The largest byte of each of 16 rows, lane by lane: byte r of a result lane is the largest of row r over the
// 16 columns of that lane.
OP V largest_by_row(const V rows[16]) {
  V eight[8], four[4], two[2];
  for (int i = 0; i < 8; ++i)
    eight[i] = max8(low8(rows[2 * i], rows[2 * i + 1]), high8(rows[2 * i], rows[2 * i + 1]));
  for (int i = 0; i < 4; ++i)
    four[i] = max8(low16(eight[2 * i], eight[2 * i + 1]), high16(eight[2 * i], eight[2 * i + 1]));
  for (int i = 0; i < 2; ++i)
    two[i] = max8(low32(four[2 * i], four[2 * i + 1]), high32(four[2 * i], four[2 * i + 1]));
  return max8(low64(two[0], two[1]), high64(two[0], two[1]));
}

OP bool any_above(V a, unsigned limit) {
  return !is_zero(saturating_sub8(a, bytes(limit)));
}

// One tile of FP8 weights under one rule. The constructor finds the scale bytes, then rows are converted one
// by one.
template <bool kAlternate, bool kCount>
struct Fp8Tile {
  const std::uint8_t* from;
  std::uint64_t stride, ahead;
  V codes[kStrips][kTileRows], shifts[kStrips];  // both less kNormalOffset where no subnormal matters
  Table index;
  // By byte: the zeros, and 8 times those with the sign bit set; 16 rows give at most 128.
  V zeros, negative[kStrips];

  // `scales` receives 32 scale bytes; `largest_code` is raised to the tile's largest code.
  OP Fp8Tile(const std::uint8_t* weight, std::uint64_t weight_stride, std::uint64_t fetch_at,
             const Fp8Rule& rule, std::uint8_t* scales, V& largest_code)
      : from(weight), stride(weight_stride), ahead(fetch_at), index(rule.index), zeros(bytes(0)) {
    for (unsigned i = 0; i < kStrips; ++i) {
      negative[i] = bytes(0);
      V(&row)[kTileRows] = codes[i];
#pragma GCC unroll 16
      for (unsigned r = 0; r < kTileRows; ++r) row[r] = load(from + r * stride + i * kV) & bytes(0x7F);
      const V largest = e4m3_codes(max_of_lane_pairs(largest_by_row(row)));
      largest_code = max8(largest_code, largest);
      const V step = add8(largest, bytes(rule.offset)) & bytes(0xF8);
      const V scale = add8(shift_right16<3>(step), bytes(rule.base));
      store_lane_pairs(scales + i * (kV / 2), where8(is_zero8(largest), bytes(0), scale));
      // The magnitude of a normal number is its code less a constant. That is wrong for subnormals, but
      // harmless where the block's largest weight turns them all into zero: the usual case, and cheap.
      const V shift = add8(step, bytes(rule.shift));
      if (is_zero(saturating_sub8(bytes(kNormalOffset + 8), shift))) {
        shifts[i] = sub8(shift, bytes(kNormalOffset));
      } else {
        shifts[i] = shift;
#pragma GCC unroll 16
        for (unsigned r = 0; r < kTileRows; ++r) row[r] = e4m3_codes(row[r]);
      }
    }
  }

  // The nibbles of row r, in bytes.
  OP void operator()(unsigned r, V nibbles[kStrips]) {
    const V odd_columns = words(0x0800);
    for (unsigned i = 0; i < kStrips; ++i) {
      const V code = codes[i][r];
      if (i == 0) prefetch(from + r * stride + ahead);
      const V magnitude = index.look_up(saturating_sub8(code, shuffle(shifts[i], bytes(r))));
      V nibble = xor_bits(magnitude, shift_right16<4>(load(from + r * stride + i * kV)), bytes(8));
      if constexpr (kAlternate || kCount) {
        const Mask zero = is_zero8(code);
        if constexpr (kCount) {
          zeros = add_where8(zeros, zero, bytes(1));
          negative[i] = add_where8(negative[i], zero, nibble);
        }
        if constexpr (kAlternate) nibble = where8(zero, odd_columns, nibble);
      }
      nibbles[i] = nibble;
    }
  }

  OP void add_to(ZeroSums& sums) const {
    sums.zeros = add64(sums.zeros, sums_of_8(zeros));
    for (unsigned i = 0; i < kStrips; ++i)
      sums.negative = add64(sums.negative, shift_right64<3>(sums_of_8(negative[i])));
  }
};

constexpr std::uint64_t kFp8Rules = 64;

template <bool kStream, bool kAlternate, bool kCount>
bool fp8_slice(const Fp8Slice& s, const PlaneTarget& target, ZeroCount* zeros) noexcept {
  const bool by_rule = s.block_rows % kTileRows == 0 && s.block_cols % kTileCols == 0;
  // The rules of a row of blocks are kept for all its panels; with more than kFp8Rules blocks each panel
  // computes them again.
  Fp8Rule rules[kFp8Rules];
  bool has_rule[kFp8Rules] = {};
  const Fetch fetch(s.cols, s.weight_stride);
  TileTarget to(target);
  std::uint8_t ignored[32], *scales = target.scales != nullptr ? target.scales : ignored;
  V largest_code = bytes(0);
  ZeroSums sums;
  ZeroCount by_reference;
  for (std::uint64_t row = 0; row < s.rows; row += kTileRows) {
    const std::uint8_t* panel = s.weight + row * s.weight_stride;
    for (std::uint64_t col = 0; col < s.cols; col += kTileCols) {
      const std::uint64_t block = col / s.block_cols, slot = block % kFp8Rules;
      if (by_rule && col % s.block_cols == 0 &&
          (row % s.block_rows == 0 || s.cols > kFp8Rules * s.block_cols)) {
        const double scale = block_scale(s, row / s.block_rows, block);
        has_rule[slot] = has_log_rule(scale);
        if (has_rule[slot]) rules[slot] = fp8_rule(scale);
      }
      if (has_rule[slot]) {
        Fp8Tile<kAlternate, kCount> tile(panel + col, s.weight_stride, fetch.distance(col), rules[slot],
                                         scales, largest_code);
        pack_tile<kStream>(tile, to);
        if constexpr (kCount) tile.add_to(sums);
      } else {
        QuantizedTile tile;
        by_reference += quantize_tile(s, kAlternate ? ZeroSigns::alternate : ZeroSigns::keep, row, col, tile);
        pack_quantized<kStream>(tile, to, scales);
        for (unsigned r = 0; r < kTileRows; ++r)
          for (unsigned i = 0; i < kStrips; ++i)
            largest_code = max8(largest_code, e4m3_codes(load(panel + r * s.weight_stride + col + i * kV)));
      }
      if (target.scales != nullptr) scales += 32;
    }
  }
  if constexpr (kStream) end_stream();
  sums.add_to(zeros);
  if (zeros != nullptr) *zeros += by_reference;
  return !any_above(largest_code, kMaxCode);
}

bool finite_scales(const Fp8Slice& s) noexcept {
  for (std::uint64_t row = 0; row * s.block_rows < s.rows; ++row)
    for (std::uint64_t col = 0; col * s.block_cols < s.cols; ++col)
      if (const std::uint8_t* at = s.scale + row * s.scale_stride + col * format::scale_size(s.scale_type);
          !format::scale_is_finite(s.scale_type, format::scale_bits(s.scale_type, at)))
        return false;
  return true;
}

template <bool kStream, bool kAlternate>
bool fp8_slice(const Fp8Slice& s, const PlaneTarget& to, ZeroCount* zeros) noexcept {
  return zeros != nullptr ? fp8_slice<kStream, kAlternate, true>(s, to, zeros)
                          : fp8_slice<kStream, kAlternate, false>(s, to, zeros);
}

bool vector_fp8(const Fp8Slice& s, ZeroSigns signs, const PlaneTarget& to, ZeroCount* zeros) noexcept {
  if (!finite_scales(s)) return false;
  if (signs == ZeroSigns::alternate)
    return can_stream(to) ? fp8_slice<true, true>(s, to, zeros) : fp8_slice<false, true>(s, to, zeros);
  return can_stream(to) ? fp8_slice<true, false>(s, to, zeros) : fp8_slice<false, false>(s, to, zeros);
}
