// Part of each file of vector kernels: what is done on single 16-byte lanes, whatever the width of the
// registers.

#define OP [[gnu::always_inline]] inline

OP __m128i load16(const std::uint8_t* from) {
  return _mm_loadu_si128(reinterpret_cast<const __m128i*>(from));
}
OP void store16(std::uint8_t* to, __m128i v) {
  _mm_storeu_si128(reinterpret_cast<__m128i*>(to), v);
}

// kStream: past the caches; `to` is aligned then.
template <bool kStream>
OP void put16(std::uint8_t* to, __m128i v) {
  if constexpr (kStream)
    _mm_stream_si128(reinterpret_cast<__m128i*>(to), v);
  else
    store16(to, v);
}

// One step of a transposition: from[i] and from[i + 8], interleaved, become to[2i] and to[2i + 1]. Four steps
// transpose 16 x 16 bytes.
OP void interleave_halves(const __m128i from[16], __m128i to[16]) {
  for (int i = 0; i < 8; ++i) {
    to[2 * i] = _mm_unpacklo_epi8(from[i], from[i + 8]);
    to[2 * i + 1] = _mm_unpackhi_epi8(from[i], from[i + 8]);
  }
}

// Bytes (row, col) of 16 rows by `cols` columns, at most 16, to columns[col] (byte `row` of it). Reads
// nothing beyond the rows; columns from `cols` on are zero.
OP void transpose_rows(const std::uint8_t* rows, std::uint64_t stride, std::uint64_t cols,
                       __m128i columns[16]) {
  __m128i a[16], b[16];
  for (unsigned r = 0; r < 16; ++r) {
    if (cols == 16) {
      a[r] = load16(rows + r * stride);
    } else {
      std::uint8_t padded[16] = {};
      std::memcpy(padded, rows + r * stride, cols);
      a[r] = load16(padded);
    }
  }
  interleave_halves(a, b);
  interleave_halves(b, a);
  interleave_halves(a, b);
  interleave_halves(b, columns);
}
