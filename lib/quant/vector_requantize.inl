// Part of each file of vector kernels: FP8 and NVFP4 to packed nibbles and scale bytes by the rules of
// log_code.h, one chunk (16 rows) at a time in the first-level cache, from where vector_planes.inl packs
// them.

constexpr std::uint64_t kAllBytes = kV == 64 ? ~std::uint64_t{0} : (std::uint64_t{1} << kV % 64) - 1;

OP bool any_above(V a, unsigned limit) {
  return zero_bytes(saturating_sub8(a, bytes(limit))) != kAllBytes;
}

// Packed nibbles and scale bytes of a chunk.
struct Chunk {
  alignas(64) std::uint8_t rows[kTileRows][kV];
  alignas(64) std::uint8_t scales[kV];  // 16 for each block of 32 columns
};

// The largest of each row's bytes, of 16 registers: afterwards byte r of a lane belongs to row r, over the 16
// columns that the lane held.
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

// --- FP8 ---

constexpr unsigned kStrips = kTileCols / kV;  // registers in a row of a tile

// One tile: its packed rows to chunk.rows[.][at ...] and its scale bytes to chunk.scales[at ...].
template <bool kAlternate, bool kCount>
OP void fp8_tile(const std::uint8_t* from, std::uint64_t stride, const Fp8Rule& rule, unsigned at,
                 Chunk& chunk, V& worst, ZeroCount& count) {
  V codes[kStrips][kTileRows], shifts[kStrips];
  for (unsigned i = 0; i < kStrips; ++i) {
    for (unsigned r = 0; r < kTileRows; ++r) codes[i][r] = e4m3_codes(load(from + r * stride + i * kV));
    const V largest = max_of_lane_pairs(largest_by_row(codes[i]));
    worst = max8(worst, largest);
    const V step = add8(largest, bytes(rule.offset)) & bytes(0xF8);
    shifts[i] = add8(step, bytes(rule.shift));
    store_lane_pairs(chunk.scales + at + i * (kV / 2),
                     if_zero8(largest, bytes(0), add8(shift_right16<3>(step), bytes(rule.base))));
  }
  const Table index(rule.index);
  const V sign_bit = bytes(0x80), flip = bytes(rule.sign), odd_columns = words(0x8000);
  for (unsigned r = 0; r < kTileRows; ++r) {
    V nibbles[kStrips];
    for (unsigned i = 0; i < kStrips; ++i) {
      const V code = codes[i][r];
      V sign = (load(from + r * stride + i * kV) ^ flip) & sign_bit;
      if constexpr (kCount) {
        const std::uint64_t zero = zero_bytes(code);
        count.zeros += static_cast<std::uint64_t>(__builtin_popcountll(zero));
        count.negative += static_cast<std::uint64_t>(__builtin_popcountll(zero & top_bits(sign)));
      }
      if constexpr (kAlternate) sign = if_zero8(code, odd_columns, sign);
      const V magnitude = index.look_up(saturating_sub8(code, shuffle(shifts[i], bytes(r))));
      nibbles[i] = pairs8(magnitude | shift_right16<4>(sign), words(0x1001));
    }
    store_narrow(chunk.rows[r] + at, nibbles);
  }
}

// The same for a tile that has no rule.
OP void fp8_tile_by_reference(const Fp8Slice& s, ZeroSigns zeros, std::uint64_t row, std::uint64_t col,
                              unsigned at, Chunk& chunk, V& worst, ZeroCount& count) {
  QuantizedTile tile;
  count += quantize_tile(s, zeros, row, col, tile);
  for (unsigned r = 0; r < kTileRows; ++r) {
    for (unsigned i = 0; i < kStrips; ++i)
      worst = max8(worst, e4m3_codes(load(s.weight + (row + r) * s.weight_stride + col + i * kV)));
    for (unsigned c = 0; c < kTileCols; c += 2)
      chunk.rows[r][at + c / 2] = static_cast<std::uint8_t>(tile.nibble[r][c] | tile.nibble[r][c + 1] << 4);
    for (unsigned b = 0; b < 2; ++b) chunk.scales[at + 16 * b + r] = tile.scale[r][b];
  }
}

// Whether every block scale is finite.
bool finite_scales(const Fp8Slice& s) noexcept {
  for (std::uint64_t row = 0; row < s.rows; row += s.block_rows)
    for (std::uint64_t col = 0; col < s.cols; col += s.block_cols)
      if (s.scale_is_e8m0
              ? format::e8m0_is_nan(s.scale[row / s.block_rows * s.scale_stride + col / s.block_cols])
              : !std::isfinite(block_scale(s, row, col)))
        return false;
  return true;
}

template <bool kStream, bool kAlternate, bool kCount>
bool fp8_slice(const Fp8Slice& s, const PlaneTarget& target) noexcept {
  const bool by_rule = s.block_rows % kTileRows == 0 && s.block_cols % kTileCols == 0;
  TileTarget to(target);
  std::uint8_t* scales = target.scales;
  Fp8Rule rule;
  bool has_rule = false;
  V worst = bytes(0);
  ZeroCount count;
  Chunk chunk;
  for (std::uint64_t row = 0; row < s.rows; row += kTileRows) {
    const std::uint8_t* panel = s.weight + row * s.weight_stride;
    const std::uint64_t ahead = row + kTileRows < s.rows ? kTileRows * s.weight_stride : 0;
    for (std::uint64_t col = 0; col < s.cols; col += kChunkTiles * kTileCols) {
      const unsigned tiles = s.cols - col < kChunkTiles * kTileCols ? 1 : kChunkTiles;
      for (unsigned t = 0; t < tiles; ++t) {
        const std::uint64_t at = col + t * kTileCols;
        prefetch_rows(panel + at + ahead, s.weight_stride);
        if (by_rule && at % s.block_cols == 0) {
          const double scale = block_scale(s, row, at);
          has_rule = has_log_rule(scale);
          if (has_rule) rule = fp8_rule(scale);
        }
        if (has_rule)
          fp8_tile<kAlternate, kCount>(panel + at, s.weight_stride, rule, 32 * t, chunk, worst, count);
        else
          fp8_tile_by_reference(s, kAlternate ? ZeroSigns::alternate : ZeroSigns::keep, row, at, 32 * t,
                                chunk, worst, count);
      }
      pack_chunk<kStream>(chunk.rows[0], kV, tiles, to);
      if (scales != nullptr) {
        std::memcpy(scales, chunk.scales, 32 * tiles);
        scales += 32 * tiles;
      }
    }
  }
  if constexpr (kStream) _mm_sfence();
  if (target.zeros != nullptr) *target.zeros += count;
  return !any_above(worst, kMaxCode);
}

template <bool kStream, bool kAlternate>
bool fp8_slice(const Fp8Slice& s, const PlaneTarget& to) noexcept {
  return to.zeros != nullptr ? fp8_slice<kStream, kAlternate, true>(s, to)
                             : fp8_slice<kStream, kAlternate, false>(s, to);
}

bool vector_fp8(const Fp8Slice& s, ZeroSigns zeros, const PlaneTarget& to) noexcept {
  if (!finite_scales(s)) return false;
  if (zeros == ZeroSigns::alternate)
    return can_stream(to) ? fp8_slice<true, true>(s, to) : fp8_slice<false, true>(s, to);
  return can_stream(to) ? fp8_slice<true, false>(s, to) : fp8_slice<false, false>(s, to);
}

// --- NVFP4 ---

// Scales of a row panel, 16 groups of 16 columns at a time: bytes [group / 2][row] of the even groups and of
// the odd.
struct GroupScales {
  alignas(64) std::uint8_t even[8][16], odd[8][16];
  OP void load_groups(const std::uint8_t* rows, std::uint64_t stride, std::uint64_t groups) {
    __m128i columns[16];
    transpose_rows(rows, stride, groups, columns);
    for (unsigned g = 0; g < 16; g += 2) {
      store16(even[g / 2], columns[g]);
      store16(odd[g / 2], columns[g + 1]);
    }
  }
};

// The largest magnitude index of each group and row: byte r of lane i is that of row r in group 2i (even) or
// 2i + 1.
OP void largest_by_group(const std::uint8_t* rows, std::uint64_t stride, V& even, V& odd) {
  const V low_bits = bytes(7);
  V sixteen[16], eight[8], four[4], two[2];
  for (unsigned r = 0; r < 16; ++r) {
    const V x = load(rows + r * stride);
    sixteen[r] = max8(x & low_bits, shift_right16<4>(x) & low_bits);
  }
  // Halve a group's bytes and put the halves of two rows side by side, until each group has 8 rows in its 8
  // bytes.
  for (int i = 0; i < 8; ++i)
    eight[i] = odd8_from(max8(sixteen[2 * i], shift_right16<8>(sixteen[2 * i])),
                         max8(sixteen[2 * i + 1], shift_left16<8>(sixteen[2 * i + 1])));
  for (int i = 0; i < 4; ++i)
    four[i] = odd16_from(max8(eight[2 * i], shift_right32<16>(eight[2 * i])),
                         max8(eight[2 * i + 1], shift_left32<16>(eight[2 * i + 1])));
  for (int i = 0; i < 2; ++i)
    two[i] = odd32_from(max8(four[2 * i], shift_right64<32>(four[2 * i])),
                        max8(four[2 * i + 1], shift_left64<32>(four[2 * i + 1])));
  even = low64(two[0], two[1]);
  odd = high64(two[0], two[1]);
}

// One register of packed nibbles and its scales to a chunk.
template <bool kAlternate, bool kCount>
OP void nvfp4_chunk(const std::uint8_t* from, std::uint64_t stride, const std::uint8_t* even_scales,
                    const std::uint8_t* odd_scales, const Nvfp4Rule& rule, Chunk& chunk, V& worst,
                    ZeroCount& count) {
  const V none = bytes(0), scale[2] = {load(even_scales), load(odd_scales)};
  V code[2], largest[2], step[2];
  largest_by_group(from, stride, largest[0], largest[1]);
  const V add = every_lane(load16(rule.add));
  for (int i = 0; i < 2; ++i) {
    code[i] = e4m3_codes(scale[i]);
    worst = max8(worst, code[i]);
    step[i] = if_zero8(largest[i], none, add8(code[i], shuffle(add, largest[i])) & bytes(0xF8));
  }
  // A group whose scale is zero has a step below 48, one that is not all zero 48 or more.
  const V larger = max8(step[0], step[1]);
  store(chunk.scales,
        if_zero8(saturating_sub8(larger, bytes(47)), none, add8(shift_right16<3>(larger), bytes(rule.base))));
  alignas(64) std::uint8_t map_row[2][kV];
  for (int i = 0; i < 2; ++i) {
    const V row = saturating_sub8(add8(code[i], bytes(kNvfp4Lift)), add8(larger, bytes(rule.shift)));
    const V limited = min8(max8(row, bytes(1)), bytes(127));
    store(map_row[i], if_zero8(code[i], none, limited) | (scale[i] & bytes(0x80)));
  }
  // Low half of a lane: even group; the map's second half is for the odd one.
  const V second = every_lane(_mm_setr_epi8(0, 0, 0, 0, 0, 0, 0, 0, 8, 8, 8, 8, 8, 8, 8, 8));
  for (unsigned r = 0; r < kTileRows; ++r) {
    const V map = gather_maps(rule.map, map_row[0] + r, map_row[1] + r);
    const V x = load(from + r * stride);
    const V low = shuffle(map, (x & bytes(7)) | second);
    const V high = shuffle(map, (shift_right16<4>(x) & bytes(7)) | second);
    V nibbles = ((low & bytes(0x0F)) | (shift_left16<4>(high) & bytes(0xF0))) ^ (x & bytes(0x88));
    if constexpr (kCount) {
      const std::uint64_t low_zero = top_bits(low), high_zero = top_bits(high);
      const std::uint64_t low_negative = top_bits(shift_left16<4>(nibbles)),
                          high_negative = top_bits(nibbles);
      count.zeros +=
          static_cast<std::uint64_t>(__builtin_popcountll(low_zero) + __builtin_popcountll(high_zero));
      count.negative += static_cast<std::uint64_t>(__builtin_popcountll(low_zero & low_negative) +
                                                   __builtin_popcountll(high_zero & high_negative));
    }
    if constexpr (kAlternate) {
      const V even_zero = shift_right16<4>(low & bytes(0x80)), odd_zero = high & bytes(0x80);
      nibbles = (nibbles & (even_zero ^ bytes(0xFF))) | odd_zero;
    }
    store(chunk.rows[r], nibbles);
  }
}

template <bool kStream, bool kAlternate, bool kCount>
bool nvfp4_slice(const Nvfp4Slice& s, const PlaneTarget& target) noexcept {
  Nvfp4Rule rule;
  nvfp4_rule(double{s.scale_2}, rule);
  TileTarget to(target);
  std::uint8_t* scales = target.scales;
  const std::uint64_t row_bytes = s.cols / 2;
  V worst = bytes(0);
  ZeroCount count;
  Chunk chunk;
  GroupScales groups;
  for (std::uint64_t row = 0; row < s.rows; row += kTileRows) {
    const std::uint8_t* panel = s.weight + row * s.weight_stride;
    const std::uint8_t* panel_scales = s.scale + row * s.scale_stride;
    const std::uint64_t ahead = row + kTileRows < s.rows ? kTileRows * s.weight_stride : 0;
    for (std::uint64_t at = 0; at < row_bytes; at += kV) {
      const std::uint64_t in_groups = at % 128;  // 16 groups are 128 bytes
      if (in_groups == 0) {
        const std::uint64_t left = (row_bytes - at) / 8;
        groups.load_groups(panel_scales + at / 8, s.scale_stride, left < 16 ? left : 16);
      }
      if (at % 64 == 0) prefetch_rows(panel + at + ahead, s.weight_stride);
      const std::uint8_t *even = groups.even[in_groups / 16], *odd = groups.odd[in_groups / 16];
      unsigned tiles = kChunkTiles;
      if (row_bytes - at >= kV) {
        nvfp4_chunk<kAlternate, kCount>(panel + at, s.weight_stride, even, odd, rule, chunk, worst, count);
      } else {
        alignas(64) std::uint8_t padded[kTileRows][kV];
        for (unsigned r = 0; r < kTileRows; ++r) {
          std::memset(padded[r], 0, kV);
          std::memcpy(padded[r], panel + r * s.weight_stride + at, row_bytes - at);
        }
        nvfp4_chunk<kAlternate, kCount>(padded[0], kV, even, odd, rule, chunk, worst, count);
        // What the padding added to the zeros.
        count.zeros -= kTileRows * 2 * (kV - (row_bytes - at));
        count.negative -= std::signbit(s.scale_2) ? kTileRows * 2 * (kV - (row_bytes - at)) : 0;
        tiles = 1;
      }
      pack_chunk<kStream>(chunk.rows[0], kV, tiles, to);
      if (scales != nullptr) {
        std::memcpy(scales, chunk.scales, 32 * tiles);
        scales += 32 * tiles;
      }
    }
  }
  if constexpr (kStream) _mm_sfence();
  if (target.zeros != nullptr) *target.zeros += count;
  return !any_above(worst, kMaxCode);
}

template <bool kStream, bool kAlternate>
bool nvfp4_slice(const Nvfp4Slice& s, const PlaneTarget& to) noexcept {
  return to.zeros != nullptr ? nvfp4_slice<kStream, kAlternate, true>(s, to)
                             : nvfp4_slice<kStream, kAlternate, false>(s, to);
}

bool vector_nvfp4(const Nvfp4Slice& s, ZeroSigns zeros, const PlaneTarget& to) noexcept {
  if (!std::isfinite(s.scale_2)) return false;
  if (!has_log_rule(s.scale_2)) return kScalarKernels.nvfp4(s, zeros, to);
  if (zeros == ZeroSigns::alternate)
    return can_stream(to) ? nvfp4_slice<true, true>(s, to) : nvfp4_slice<false, true>(s, to);
  return can_stream(to) ? nvfp4_slice<true, false>(s, to) : nvfp4_slice<false, false>(s, to);
}
