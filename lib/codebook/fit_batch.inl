// One batch of blocks of 32 weights, each fitted separately: fit_subset() for many histograms at a time, one
// block in each vector lane. Included once for each width, with
//   FIT_BATCH    the function's name
//   FIT_WIDTH    bytes of a vector, which is also the number of blocks of a batch
//   FIT_TARGET   the attribute that lets the compiler use that width
//   FIT_LOOK_UP  (table, x): table[x[i]] for each byte x[i] < 16, the table being repeated every 16 bytes
//
//   bytes   [16][FIT_WIDTH]: byte p of block b at [p][b]
//   levels  2..14
//   sets    receives the chosen set of each block b, at set_position(b, FIT_WIDTH)
// Returns four times the sum of squared errors of all blocks.
FIT_TARGET std::uint64_t FIT_BATCH(const std::uint8_t* bytes, int levels, LevelSet* sets) {
  using Vector8 = std::uint8_t __attribute__((vector_size(FIT_WIDTH)));
  using Vector16 = std::int16_t __attribute__((vector_size(FIT_WIDTH)));

  // How many elements of each block have each grid value. A look-up adds to the counts of two values at once,
  // i and i + 8, in the halves of a byte, which are flushed before they can exceed 15.
  Vector8 count_of[16];
  for (int i = 0; i < 8; ++i) {
    Vector8 table, low{}, high{};
    for (unsigned n = 0; n < FIT_WIDTH; ++n) table[n] = kGrid.count_pair[i][n % 16];
    for (int p = 0; p < kBlockBytes;) {
      Vector8 both{};
      for (const int end = std::min(p + 7, kBlockBytes); p < end; ++p) {
        const Vector8 x = reinterpret_cast<const Vector8*>(bytes)[p];
        both += FIT_LOOK_UP(table, x & 15) + FIT_LOOK_UP(table, x >> 4);
      }
      low += both & 15;
      high += both >> 4;
    }
    count_of[i] = low;
    count_of[i + 8] = high;
  }

  // From here on this is fit_subset(), for the even blocks and then for the odd ones. 16 bits suffice: 32
  // elements cost at most (2 * 12)^2 each. Unrolled where that makes the grid's values constants.
  std::uint64_t total = 0;
  for (int odd = 0; odd < 2; ++odd) {
    Vector16 count[kGridLevels], sum[kGridLevels], squares{};
#pragma GCC unroll 16
    for (int t = 0; t < kGridLevels; ++t) {
      const Vector16 pair = reinterpret_cast<Vector16>(count_of[t]), n = odd ? pair >> 8 : pair & 255;
      count[t] = t == 0 ? n : count[t - 1] + n;
      sum[t] = t == 0 ? n * kGrid.value[0] : sum[t - 1] + n * kGrid.value[t];
      squares += n * short_of(kGrid.value[t] * kGrid.value[t]);
    }

    Vector16 saving[kGridLevels][kGridLevels];
#pragma GCC unroll 16
    for (int a = 0; a < kGridLevels; ++a)
#pragma GCC unroll 16
      for (int b = a + 1; b < kGridLevels; ++b) {
        const int va = kGrid.value[a], vb = kGrid.value[b], t = kGrid.split[a][b];
        saving[a][b] = (count[t] * short_of(va + vb) - sum[t] * short_of(2)) * short_of(vb - va);
      }

    Vector16 cost[kGridLevels], set[kGridLevels];
#pragma GCC unroll 16
    for (int a = 0; a < kGridLevels; ++a) {
      const std::int16_t va = kGrid.value[a];
      cost[a] = squares + (short_of(kBlockElements * va) - sum[kGridLevels - 1] * short_of(2)) * va;
      set[a] = Vector16{} + short_of(1 << a);
    }
    for (int k = 2; k <= levels; ++k)
      for (int a = levels - k; a <= kGridLevels - k; ++a) {
        Vector16 least = cost[a + 1] - saving[a][a + 1], first = set[a + 1];
#pragma GCC unroll 4
        for (int b = a + 2; b <= kGridLevels - k + 1; ++b) {
          const Vector16 x = cost[b] - saving[a][b];
          const auto less = x < least;
          least = less ? x : least;
          first = less ? set[b] : first;
        }
        cost[a] = least;
        set[a] = first | short_of(1 << a);
      }
    Vector16 least = cost[0], first = set[0];
    for (int a = 1; a <= kGridLevels - levels; ++a) {
      const auto less = cost[a] < least;
      least = less ? cost[a] : least;
      first = less ? set[a] : first;
    }
    reinterpret_cast<Vector16*>(sets)[odd] = first;
    for (int lane = 0; lane < FIT_WIDTH / 2; ++lane) total += static_cast<std::uint64_t>(least[lane]);
  }
  return total;
}
#undef FIT_BATCH
#undef FIT_WIDTH
#undef FIT_TARGET
#undef FIT_LOOK_UP
