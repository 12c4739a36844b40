// Part of each file of vector kernels: converts rows of packed nibbles to planes. MXFP4 needs nothing else.

using format::kCodeTile, format::kNibbleTile, format::kQuintalTile, format::kTileCols, format::kTileRows;

// Tiles side by side in one register of packed nibbles. A chunk is 16 such rows.
constexpr unsigned kChunkTiles = kV / 32;
// Registers that hold a byte for each column of a tile.
constexpr unsigned kStrips = kTileCols / kV;

// Where the next tile goes.
struct TileTarget {
  std::uint8_t *codes, *nibbles, *quintals;
  OP explicit TileTarget(const PlaneTarget& to)
      : codes(to.codes), nibbles(to.nibbles), quintals(to.quintals) {}
  OP void advance(std::uint64_t tiles) {
    if (codes != nullptr) codes += tiles * kCodeTile;
    if (nibbles != nullptr) nibbles += tiles * kNibbleTile;
    if (quintals != nullptr) quintals += tiles * kQuintalTile;
  }
};

// Stores that bypass the caches need aligned planes. Advancing by whole tiles keeps the alignment.
OP bool is_aligned(const std::uint8_t* plane) {
  return reinterpret_cast<std::uintptr_t>(plane) % 64 == 0;
}
OP bool can_stream(const PlaneTarget& to) {
  return kCanStream && to.stream && is_aligned(to.codes) && is_aligned(to.nibbles) &&
         is_aligned(to.quintals) && is_aligned(to.scales);
}

template <bool kStream>
OP void put(std::uint8_t* to, V v) {
  if constexpr (kStream)
    stream(to, v);
  else
    store(to, v);
}
template <bool kStream>
OP void put16(std::uint8_t* to, Lane v) {
  if constexpr (kStream)
    stream16(to, v);
  else
    store16(to, v);
}

// 2-bit codes of the nibbles of a, then of b.
OP V codes_of(V low_a, V high_a, V low_b, V high_b) {
  // Bit 0 of a code: sign differs from "outer level"; bit 1: not negative (format::code_of).
  const V even = every_lane(lane(2, 2, 2, 2, 2, 3, 3, 3, 1, 1, 1, 1, 1, 0, 0, 0));
  const V odd = every_lane(lane(8, 8, 8, 8, 8, 12, 12, 12, 4, 4, 4, 4, 4, 0, 0, 0));
  return joined(of_nibbles(even, low_a) | of_nibbles(odd, high_a),
                of_nibbles(even, low_b) | of_nibbles(odd, high_b));
}

// The quintal record of each lane (16 bytes of a nibble plane): its first 8 bytes at byte 0, the last 2 at
// byte 8.
OP V record_of(V low, V high) {
  const V digit = every_lane(lane(0, 1, 2, 3, 4, 0, 1, 2, 0, 1, 2, 3, 4, 0, 1, 2));
  const V five_digits = every_lane(lane(0, 5, 10, 15, 20, 0, 5, 10, 0, 5, 10, 15, 20, 0, 5, 10));
  const V word = base25(add8(of_nibbles(digit, low), of_nibbles(five_digits, high)));
  return shuffle(join20(join10(word)),
                 every_lane(lane(0, 1, 2, 3, 4, 8, 9, 10, 11, 12, -1, -1, -1, -1, -1, -1)));
}

// Registers in 128 bytes of a nibble plane, which four rows of a tile fill. Their 2-bit codes are one cache
// line.
constexpr unsigned kLineQuads = 128 / kV;

// The last 2 bytes of each record of a quintal tile, which are its last cache line; 4 pairs of registers fill
// one register of it. They are kept until the line is whole: streaming half a line costs more than a whole
// one.
struct RecordTails {
  V of_four_pairs[64 / kV];
  OP RecordTails() {
    for (V& tails : of_four_pairs) tails = bytes(0);
  }
  OP void add(unsigned pair, V record_a, V record_b) {
    V& tails = of_four_pairs[pair / 4];
    tails = shift_left64<16>(tails) | high64(record_a, record_b);
  }
  template <bool kStream>
  OP void put_to(const TileTarget& to) const {
    if (to.quintals == nullptr) return;
    for (unsigned i = 0; i < 64 / kV; ++i)
      put<kStream>(to.quintals + 256 + i * kV, record_tails(of_four_pairs[i]));
  }
};

// Writes all planes for 128 bytes at byte `at` of a tile's nibble plane; register pairs are in working order.
template <bool kStream>
OP void emit(const TileTarget& to, unsigned at, const V quads[kLineQuads], RecordTails& tails) {
  V low[kLineQuads], high[kLineQuads];
  for (unsigned i = 0; i < kLineQuads; ++i) {
    low[i] = low_nibbles(quads[i]);
    high[i] = high_nibbles(quads[i]);
  }
  if (to.nibbles != nullptr)
    for (unsigned i = 0; i < kLineQuads; i += 2) {
      V pair[2] = {quads[i], quads[i + 1]};
      swap_order(pair);
      put<kStream>(to.nibbles + at + i * kV, pair[0]);
      put<kStream>(to.nibbles + at + (i + 1) * kV, pair[1]);
    }
  if (to.codes != nullptr)
    for (unsigned i = 0; i < kLineQuads; i += 2)
      put<kStream>(to.codes + at / 2 + i * kV / 2, codes_of(low[i], high[i], low[i + 1], high[i + 1]));
  if (to.quintals != nullptr)
    for (unsigned i = 0; i < kLineQuads; i += 2) {
      const V record_a = record_of(low[i], high[i]), record_b = record_of(low[i + 1], high[i + 1]);
      put<kStream>(to.quintals + at / 2 + i * kV / 2, record_heads(record_a, record_b));
      tails.add((at / kV + i) / 2, record_a, record_b);
    }
}

// Packs the first `tiles` tiles of a chunk; row(r) gives the packed nibbles of row r.
template <bool kStream, typename Rows>
OP void pack_chunk(Rows& row, unsigned tiles, TileTarget& to) {
  RecordTails tails[2];
  TileTarget next = to;
  next.advance(1);
#pragma GCC unroll 4
  for (unsigned g = 0; g < 8; g += 2) {
    V quads[2][2];  // of rows g and g + 8, and of rows g + 1 and g + 9
    for (unsigned i = 0; i < 2; ++i) {
      const V upper = row(g + i);  // the order in which Nvfp4Chunk::count() expects the rows
      const V lower = row(g + i + 8);
      place_rows(upper, lower, quads[i]);
    }
    if constexpr (kChunkTiles == 1) {
      const V line[4] = {quads[0][0], quads[0][1], quads[1][0], quads[1][1]};
      emit<kStream>(to, 64 * g, line, tails[0]);
    } else {  // a register holds a row pair of one tile
      const V line[2] = {quads[0][0], quads[1][0]}, of_next[2] = {quads[0][1], quads[1][1]};
      emit<kStream>(to, 64 * g, line, tails[0]);
      if (tiles == 2) emit<kStream>(next, 64 * g, of_next, tails[1]);
    }
  }
  tails[0].put_to<kStream>(to);
  if (tiles == 2) tails[1].put_to<kStream>(next);
  to.advance(tiles);
}

// Packs one tile; row(r, out) gives the nibbles of row r in bytes, strip by strip of kV columns.
template <bool kStream, typename Rows>
OP void pack_tile(Rows& row, TileTarget& to) {
  RecordTails tails;
#pragma GCC unroll 4
  for (unsigned g = 0; g < 8; g += 2) {
    V quads[kLineQuads];
    for (unsigned i = 0; i < 2; ++i) {
      V upper[kStrips], lower[kStrips];
      row(g + i, upper);
      row(g + i + 8, lower);
      place_strips(upper, lower, quads + i * kStrips);
    }
    emit<kStream>(to, 64 * g, quads, tails);
  }
  tails.put_to<kStream>(to);
  to.advance(1);
}

// Rows of packed nibbles in memory.
struct RowsInMemory {
  const std::uint8_t* first;
  std::uint64_t stride;
  OP V operator()(unsigned r) const { return load(first + r * stride); }
};

// Packs a tile that the reference converted; `scales` receives its 32 scale bytes.
template <bool kStream>
OP void pack_quantized(const QuantizedTile& tile, TileTarget& to, std::uint8_t* scales) {
  alignas(64) std::uint8_t padded[kTileRows][kV] = {};
  for (unsigned r = 0; r < kTileRows; ++r) {
    std::memcpy(padded[r], tile.row[r], sizeof tile.row[r]);
    for (unsigned b = 0; b < 2; ++b) scales[kTileRows * b + r] = tile.scale[r][b];
  }
  const RowsInMemory rows{padded[0], kV};
  pack_chunk<kStream>(rows, 1, to);
}

// Prefetch distances: of each row the bytes some way ahead in the same panel, at its end those at the start
// of the next panel. One line is fetched with the work on each row, because prefetches and streaming stores
// share a few buffers and a burst of one delays the other.
struct Fetch {
  std::uint64_t row_bytes, next_panel;  // from a row to the same row of the next panel
  OP Fetch(std::uint64_t row_width, std::uint64_t stride)
      : row_bytes(row_width), next_panel(kTileRows * stride) {}
  // Distance from byte `at` of a row to the byte to prefetch. The last panel prefetches bytes that are never
  // read.
  OP std::uint64_t distance(std::uint64_t at) const {
    constexpr std::uint64_t kDistance = 256;
    return at + kDistance < row_bytes ? kDistance : next_panel + kDistance - row_bytes;
  }
};
OP void prefetch(const std::uint8_t* at) {
  __builtin_prefetch(at);
}

// One step of a transposition: from[i] and from[i + 8], interleaved, become to[2i] and to[2i + 1]. Four steps
// transpose 16 x 16 bytes, in each lane.
template <typename Register>
OP void interleave_halves(const Register from[16], Register to[16]) {
  for (int i = 0; i < 8; ++i) {
    to[2 * i] = low8(from[i], from[i + 8]);
    to[2 * i + 1] = high8(from[i], from[i + 8]);
  }
}

// Bytes (row, col) of 16 rows by `cols` columns, at most a register's, to lane col / 16 of columns[col % 16]
// (byte `row` of it). Reads nothing beyond the rows; columns from `cols` on are zero.
template <typename Register>
OP void transpose_rows(const std::uint8_t* rows, std::uint64_t stride, std::uint64_t cols,
                       Register columns[16]) {
  Register a[16], b[16];
  if (cols == sizeof(Register)) {
    for (unsigned r = 0; r < 16; ++r) std::memcpy(&a[r], rows + r * stride, sizeof(Register));
  } else {
    std::memset(a, 0, sizeof a);
    for (unsigned r = 0; r < 16; ++r) std::memcpy(&a[r], rows + r * stride, cols);
  }
  interleave_halves(a, b);
  interleave_halves(b, a);
  interleave_halves(a, b);
  interleave_halves(b, columns);
}

// The scale plane of one row panel. `largest` takes the largest byte of each position.
template <bool kStream>
OP void place_scales(const std::uint8_t* rows, std::uint64_t stride, std::uint64_t cols, std::uint8_t* to,
                     Lane& largest) {
  for (std::uint64_t col = 0; col < cols; col += 16) {
    const std::uint64_t n = cols - col < 16 ? cols - col : 16;
    Lane columns[16];
    transpose_rows(rows + col, stride, n, columns);
    for (unsigned c = 0; c < 16; ++c) largest = max8(largest, columns[c]);
    if (to == nullptr) continue;
    for (unsigned c = 0; c < n; ++c) put16<kStream>(to + 16 * (col + c), columns[c]);
  }
}

// Rows that prefetch later bytes as they are read.
struct FetchingRows {
  RowsInMemory rows;
  std::uint64_t ahead;
  OP V operator()(unsigned r) const {
    prefetch(rows.first + r * rows.stride + ahead);
    return rows(r);
  }
};

template <bool kStream>
bool mxfp4_slice(const Mxfp4Slice& s, const PlaneTarget& target) noexcept {
  TileTarget to(target);
  std::uint8_t* scales = target.scales;
  const std::uint64_t row_bytes = s.cols / 2, whole = row_bytes / kV * kV,
                      scale_cols = s.cols / format::kScaleCols;
  const Fetch fetch(row_bytes, s.weight_stride);
  Lane largest{};
  for (std::uint64_t row = 0; row < s.rows; row += kTileRows) {
    const std::uint8_t* panel = s.weight + row * s.weight_stride;
    for (std::uint64_t at = 0; at < whole; at += kV) {
      const FetchingRows rows{{panel + at, s.weight_stride}, fetch.distance(at)};
      const std::uint64_t line = at / 64;  // of the panel's scales, which are read when its weights are done
      prefetch(s.scale + (row + line % kTileRows) * s.scale_stride + line / kTileRows * 64);
      pack_chunk<kStream>(rows, kChunkTiles, to);
    }
    if (whole < row_bytes) {
      alignas(64) std::uint8_t padded[kTileRows][kV] = {};
      for (unsigned r = 0; r < kTileRows; ++r)
        std::memcpy(padded[r], panel + r * s.weight_stride + whole, row_bytes - whole);
      const RowsInMemory rows{padded[0], kV};
      pack_chunk<kStream>(rows, 1, to);
    }
    place_scales<kStream>(s.scale + row * s.scale_stride, s.scale_stride, scale_cols, scales, largest);
    if (scales != nullptr) scales += kTileRows * scale_cols;
  }
  if constexpr (kStream) end_stream();
  return !has_255(largest);
}

bool vector_mxfp4(const Mxfp4Slice& s, const PlaneTarget& to) noexcept {
  return can_stream(to) ? mxfp4_slice<true>(s, to) : mxfp4_slice<false>(s, to);
}

void vector_from_nibbles(const std::uint8_t* nibbles, std::uint64_t tiles, std::uint8_t* codes,
                         std::uint8_t* quintals) noexcept {
  TileTarget to(PlaneTarget{codes, nullptr, quintals, nullptr});
  for (std::uint64_t tile = 0; tile < tiles; ++tile, nibbles += kNibbleTile) {
    RecordTails tails;
    for (unsigned at = 0; at < kNibbleTile; at += 128) {
      V quads[kLineQuads];
      for (unsigned i = 0; i < kLineQuads; ++i) quads[i] = load(nibbles + at + i * kV);
      for (unsigned i = 0; i < kLineQuads; i += 2) swap_order(quads + i);
      emit<false>(to, at, quads, tails);
    }
    tails.put_to<false>(to);
    to.advance(1);
  }
}
