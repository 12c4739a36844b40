// Part of each file of vector kernels: NVFP4 by the rules of log_code.h, a chunk at a time.

constexpr unsigned kLanes = kV / 16;

// Scale bytes of a row panel, kV groups of 16 columns at a time, as [group / 2][row], even and odd groups
// apart.
struct GroupScales {
  alignas(64) std::uint8_t even[kV / 2][16], odd[kV / 2][16];
  OP void read(const std::uint8_t* rows, std::uint64_t stride, std::uint64_t groups) {
    V columns[16];  // lane q of columns[c] is group 16q + c
    transpose_rows(rows, stride, groups, columns);
    for (unsigned c = 0; c < 16; c += 2 * kLanes) {
      V evens[kLanes], odds[kLanes];
      for (unsigned i = 0; i < kLanes; ++i) {
        evens[i] = columns[c + 2 * i];
        odds[i] = columns[c + 2 * i + 1];
      }
      lanes_together(evens);
      lanes_together(odds);
      for (unsigned q = 0; q < kLanes; ++q) {
        store(even[8 * q + c / 2], evens[q]);
        store(odd[8 * q + c / 2], odds[q]);
      }
    }
  }
};

// The largest magnitude index of each group and row: byte r of lane i is that of row r in group 2i (even) or
// 2i + 1 (odd).
OP void largest_by_group(const RowsInMemory& row, V& even, V& odd) {
  // The largest index is the upper nibble of the largest byte, whatever its lower nibble is.
  V sixteen[16], eight[8], four[4], two[2];
#pragma GCC unroll 16
  for (unsigned r = 0; r < 16; ++r) {
    const V magnitudes = row(r) & bytes(0x77);
    sixteen[r] = max8(magnitudes, shift_left16<4>(magnitudes));
  }
  // Each step halves the bytes of a group and puts those of two rows side by side; at the end the 8 bytes of
  // a group hold 8 rows.
  for (int i = 0; i < 8; ++i)
    eight[i] = odd8_max(max8(sixteen[2 * i], shift_right16<8>(sixteen[2 * i])),  //
                        sixteen[2 * i + 1], shift_left16<8>(sixteen[2 * i + 1]));
  for (int i = 0; i < 4; ++i)
    four[i] = odd16_max(max8(eight[2 * i], shift_right32<16>(eight[2 * i])),  //
                        eight[2 * i + 1], shift_left32<16>(eight[2 * i + 1]));
  for (int i = 0; i < 2; ++i)
    two[i] = odd32_max(max8(four[2 * i], shift_right64<32>(four[2 * i])),  //
                       four[2 * i + 1], shift_left64<32>(four[2 * i + 1]));
  even = shift_right16<4>(low64(two[0], two[1])) & bytes(7);
  odd = shift_right16<4>(high64(two[0], two[1])) & bytes(7);
}

// A chunk of NVFP4 weights. The constructor finds the scale bytes, then rows are converted one by one.
template <bool kAlternate, bool kCount>
struct Nvfp4Chunk {
  const RowsInMemory& row;
  const std::uint8_t* fetch;  // prefetched with row 0; row r prefetches r * fetch_stride further
  std::uint64_t fetch_stride;
  const GroupMaps& maps;
  alignas(64) std::uint8_t levels[kTileRows][kV / 8];  // by row and group
  bool all_positive;                                   // no scale is zero or negative
  alignas(64) std::uint8_t signs[kTileRows][kV / 8];   // else: 0x80: negative scale, 0x40: zero
  ZeroSums& sums;
  V zeros, signs_of_x;

  // What is the same for a whole tensor, and what is summed over it.
  struct Tensor {
    const Nvfp4Rule& rule;
    const GroupMaps& maps;
    V flip;          // sign bits where scale_2 is negative: as if each scale were
    V largest_code;  // met so far
    ZeroSums sums;
  };
  // The rows, where to prefetch later ones, and the scales of their groups.
  struct Source {
    const RowsInMemory& rows;
    const std::uint8_t* fetch;
    std::uint64_t fetch_stride;
    const std::uint8_t *even_scales, *odd_scales;
  };

  // `scales` takes kV scale bytes.
  OP Nvfp4Chunk(const Source& from, Tensor& tensor, std::uint8_t* scales)
      : row(from.rows),
        fetch(from.fetch),
        fetch_stride(from.fetch_stride),
        maps(tensor.maps),
        sums(tensor.sums) {
    const Nvfp4Rule& rule = tensor.rule;
    const V none = bytes(0),
            scale[2] = {load(from.even_scales) ^ tensor.flip, load(from.odd_scales) ^ tensor.flip};
    V code[2], largest[2], step[2], level[2];
    largest_by_group(row, largest[0], largest[1]);
    const V add = every_lane(load16(rule.add));
    for (int i = 0; i < 2; ++i) {
      code[i] = e4m3_codes(scale[i]);
      tensor.largest_code = max8(tensor.largest_code, code[i]);
      step[i] = where8(is_zero8(largest[i]), none, add8(code[i], shuffle(add, largest[i])) & bytes(0xF8));
    }
    // A group whose scale is zero has a step below 48, any other group that is not all zero 48 or more.
    const V larger = max8(step[0], step[1]);
    store(scales, where8(is_zero8(saturating_sub8(larger, bytes(47))), none,
                         add8(shift_right16<3>(larger), bytes(rule.base))));
    const V shift = add8(larger, bytes(rule.shift));
    for (int i = 0; i < 2; ++i) level[i] = saturating_sub8(add8(code[i], bytes(kNvfp4Lift)), shift);
    store_by_row(levels[0], level[0], level[1]);
    asm("" : "+m"(levels));  // loading bytes from memory is faster than extracting them from registers

    V sign[2];
    for (int i = 0; i < 2; ++i)
      sign[i] = where8(is_zero8(code[i]), bytes(0x40), none) | (scale[i] & bytes(0x80));
    all_positive = is_zero(sign[0] | sign[1]);
    if (!all_positive) store_by_row(signs[0], sign[0], sign[1]);
  }

  // The requantized nibbles of row r.
  OP V operator()(unsigned r) {
    // The low half of a lane is the even group; the odd group uses the second half of the map.
    const V second = every_lane(lane(0, 0, 0, 0, 0, 0, 0, 0, 8, 8, 8, 8, 8, 8, 8, 8));
    prefetch(fetch + r * fetch_stride);
    const V map = maps.of_row(levels[r]);
    V x = row(r);
    if (!all_positive) x = under_sign(x, r);
    const V low = shuffle(map, (x & bytes(7)) | second);
    const V high = shuffle(map, (shift_right16<4>(x) & bytes(7)) | second);
    const V result = bits_from(bytes(0x0F), low, high);
    V nibbles = bits_from(bytes(0x77), result, x);
    if constexpr (kAlternate || kCount) {
      const V zero = result & bytes(0x11 * kZeroFlag);
      if constexpr (kCount) count(r, result, x);
      if constexpr (kAlternate) nibbles = bits_from(zero, bytes(0x80), nibbles);
    }
    return nibbles;
  }

  // Flips the signs of groups with a negative scale. Turns groups with a zero scale into zeros, keeping their
  // signs.
  OP V under_sign(V x, unsigned r) const {
    alignas(64) std::uint8_t keep[kV], change[kV];
    for (unsigned i = 0; i < kV; ++i) {
      keep[i] = signs[r][i / 8] & 0x40 ? 0x88 : 0xFF;
      change[i] = signs[r][i / 8] & 0x80 ? 0x88 : 0;
    }
    return (x & load(keep)) ^ load(change);
  }

  // Collects the zero flags and sign bits of four rows, so that one bit count serves all of them. Rows come
  // in the order 0 8 1 9 ...
  OP void count(unsigned r, V result, V x) {
    switch (2 * (r % 8) % 4 + r / 8) {
      case 0:
        zeros = result;
        signs_of_x = x;
        break;
      case 1:
        keep_bits<1>(result, x);
        break;
      case 2:
        keep_bits<2>(result, x);
        break;
      case 3:
        keep_bits<3>(result, x);
        sums.zeros = add_bit_counts(sums.zeros, zeros);
        sums.negative = add_bit_counts(sums.negative, zeros & signs_of_x);
    }
  }
  template <int k>
  OP void keep_bits(V result, V x) {
    const V place = bytes(0x11 * kZeroFlag >> k);
    zeros = bits_from(place, shift_right16<k>(result), zeros);
    signs_of_x = bits_from(place, shift_right16<k>(x), signs_of_x);
  }
};

template <bool kStream, bool kAlternate, bool kCount>
bool nvfp4_slice(const Nvfp4Slice& s, const PlaneTarget& target, ZeroCount* zeros) noexcept {
  const Nvfp4Rule rule = nvfp4_rule(double{s.scale_2});
  const GroupMaps maps(rule);
  using Chunk = Nvfp4Chunk<kAlternate, kCount>;
  typename Chunk::Tensor tensor{rule, maps, bytes(std::signbit(s.scale_2) ? 0x80 : 0), bytes(0), {}};
  TileTarget to(target);
  std::uint8_t* scales = target.scales;
  const std::uint64_t row_bytes = s.cols / 2;
  const Fetch fetch(row_bytes, s.weight_stride), fetch_scales(row_bytes / 8, s.scale_stride);
  std::uint64_t padding = 0;
  GroupScales groups;
  for (std::uint64_t row = 0; row < s.rows; row += kTileRows) {
    const std::uint8_t* panel = s.weight + row * s.weight_stride;
    for (std::uint64_t at = 0; at < row_bytes; at += kV) {
      const std::uint64_t in_groups = at % (8 * kV);  // kV groups are 8 kV bytes
      if (in_groups == 0) {
        const std::uint64_t left = (row_bytes - at) / 8;
        groups.read(s.scale + row * s.scale_stride + at / 8, s.scale_stride, left < kV ? left : kV);
      }
      for (unsigned r = 0; r < 2; ++r) {  // of 16 rows, with each of 8 chunks
        const std::uint64_t scale_row = row + 2 * (in_groups / kV) + r;
        prefetch(s.scale + scale_row * s.scale_stride + at / 8 + fetch_scales.distance(at / 8));
      }
      RowsInMemory rows{panel + at, s.weight_stride};
      alignas(64) std::uint8_t padded[kTileRows][kV], chunk_scales[kV];
      unsigned tiles = kChunkTiles;
      if (row_bytes - at < kV) {
        tiles = 1;
        padding += kTileRows * (kV - 32) * 2;
        for (unsigned r = 0; r < kTileRows; ++r) {
          std::memset(padded[r], 0, kV);
          std::memcpy(padded[r], rows.first + r * rows.stride, 32);
        }
        rows = {padded[0], kV};
      }
      Chunk chunk({rows, panel + at + fetch.distance(at), s.weight_stride, groups.even[in_groups / 16],
                   groups.odd[in_groups / 16]},
                  tensor, chunk_scales);
      pack_chunk<kStream>(chunk, tiles, to);
      if (scales != nullptr) {
        for (unsigned i = 0; i < 32 * tiles; i += 16) put16<kStream>(scales + i, load16(chunk_scales + i));
        scales += 32 * tiles;
      }
    }
  }
  if constexpr (kStream) end_stream();
  tensor.sums.add_to(zeros);
  if (zeros != nullptr) {
    zeros->zeros -= padding;
    if (std::signbit(s.scale_2)) zeros->negative -= padding;
  }
  return !any_above(tensor.largest_code, kMaxCode);
}

template <bool kStream, bool kAlternate>
bool nvfp4_slice(const Nvfp4Slice& s, const PlaneTarget& to, ZeroCount* zeros) noexcept {
  return zeros != nullptr ? nvfp4_slice<kStream, kAlternate, true>(s, to, zeros)
                          : nvfp4_slice<kStream, kAlternate, false>(s, to, zeros);
}

bool vector_nvfp4(const Nvfp4Slice& s, ZeroSigns signs, const PlaneTarget& to, ZeroCount* zeros) noexcept {
  if (!std::isfinite(s.scale_2)) return false;
  if (!has_log_rule(s.scale_2)) return kScalarKernels.nvfp4(s, signs, to, zeros);
  if (signs == ZeroSigns::alternate)
    return can_stream(to) ? nvfp4_slice<true, true>(s, to, zeros) : nvfp4_slice<false, true>(s, to, zeros);
  return can_stream(to) ? nvfp4_slice<true, false>(s, to, zeros) : nvfp4_slice<false, false>(s, to, zeros);
}
