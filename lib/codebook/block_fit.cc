#include "codebook/block_fit.h"

#include <algorithm>
#include <bit>
#include <cstring>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace planesmith {
namespace {

#if defined(__x86_64__)

constexpr std::int16_t short_of(int x) {
  return static_cast<std::int16_t>(x);
}

// The grid as tables, so that unrolled code has constants.
struct Grid {
  std::int16_t value[kGridLevels];
  int split[kGridLevels][kGridLevels];  // of levels a < b: the last value that is not nearer to b
  std::uint8_t count_pair[8][16];       // [i][nibble]: 1 for value i, 16 for value i + 8
};
constexpr Grid kGrid = [] {
  Grid grid{};
  for (int i = 0; i < kGridLevels; ++i) grid.value[i] = short_of(grid_value(i));
  for (int a = 0; a < kGridLevels; ++a)
    for (int b = a + 1; b < kGridLevels; ++b) grid.split[a][b] = last_nearer_to_lower(a, b);
  for (unsigned n = 0; n < 16; ++n) grid.count_pair[grid_index(n) % 8][n] = grid_index(n) < 8 ? 1 : 16;
  return grid;
}();

// Even blocks first, then the odd ones.
constexpr std::size_t set_position(std::size_t block, std::size_t width) {
  return block / 2 + block % 2 * (width / 2);
}

#define FIT_BATCH fit_batch_avx512
#define FIT_WIDTH 64
#define FIT_TARGET __attribute__((target("avx512f,avx512bw,avx512vl")))
#define FIT_LOOK_UP(table, x) \
  reinterpret_cast<Vector8>(  \
      _mm512_shuffle_epi8(reinterpret_cast<__m512i>(table), reinterpret_cast<__m512i>(x)))
#include "codebook/fit_batch.inl"

#define FIT_BATCH fit_batch_avx2
#define FIT_WIDTH 32
#define FIT_TARGET __attribute__((target("avx2")))
#define FIT_LOOK_UP(table, x) \
  reinterpret_cast<Vector8>(  \
      _mm256_shuffle_epi8(reinterpret_cast<__m256i>(table), reinterpret_cast<__m256i>(x)))
#include "codebook/fit_batch.inl"

// Moves byte p of each of 16 consecutive blocks to columns[p][block], in rows of `width` bytes.
void transpose(const std::uint8_t* blocks, std::uint8_t* columns, std::size_t width) {
  __m128i rows[16], mixed[16];
  for (int i = 0; i < 16; ++i) rows[i] = _mm_loadu_si128(reinterpret_cast<const __m128i*>(blocks) + i);
  for (int round = 0; round < 4; ++round) {  // each moves one bit of the row number to the column number
    for (int i = 0; i < 8; ++i) {
      mixed[2 * i] = _mm_unpacklo_epi8(rows[i], rows[i + 8]);
      mixed[2 * i + 1] = _mm_unpackhi_epi8(rows[i], rows[i + 8]);
    }
    std::copy(mixed, mixed + 16, rows);
  }
  for (int p = 0; p < kBlockBytes; ++p)
    _mm_store_si128(reinterpret_cast<__m128i*>(columns + static_cast<std::size_t>(p) * width), rows[p]);
}

__attribute__((target("ssse3"))) void apply(const NibbleMap& map, std::uint8_t* block) {
  const __m128i table = _mm_loadu_si128(reinterpret_cast<const __m128i*>(map.data())),
                low = _mm_set1_epi8(15);
  __m128i* const at = reinterpret_cast<__m128i*>(block);
  const __m128i x = _mm_loadu_si128(at);
  const __m128i even = _mm_shuffle_epi8(table, _mm_and_si128(x, low));
  const __m128i odd = _mm_shuffle_epi8(table, _mm_and_si128(_mm_srli_epi16(x, 4), low));
  _mm_storeu_si128(at, _mm_or_si128(even, _mm_slli_epi16(odd, 4)));
}

template <std::size_t kWidth, std::uint64_t (*kFit)(const std::uint8_t*, int, LevelSet*)>
__attribute__((target("ssse3"))) std::uint64_t remap_blocks(Bytes blocks, int levels,
                                                            const std::vector<NibbleMap>& maps) {
  alignas(64) std::uint8_t columns[kBlockBytes * kWidth], last[kBlockBytes * kWidth];
  alignas(64) LevelSet sets[kWidth];
  std::uint64_t total = 0;
  for (std::size_t done = 0; done < blocks.size();) {
    std::uint8_t* const batch = blocks.data() + done;
    const std::size_t n = std::min(blocks.size() - done, sizeof columns);
    const std::uint8_t* from = batch;
    if (n < sizeof columns) {  // the missing blocks are zeros, which cost nothing
      std::memset(last, 0, sizeof last);
      std::memcpy(last, batch, n);
      from = last;
    }
    for (std::size_t b = 0; b < kWidth; b += 16) transpose(from + b * kBlockBytes, columns + b, kWidth);
    total += kFit(columns, levels, sets);
    for (std::size_t b = 0; b < n / kBlockBytes; ++b)
      apply(maps[sets[set_position(b, kWidth)]], batch + b * kBlockBytes);
    done += n;
  }
  return total;
}

#endif

std::uint64_t remap_blocks_scalar(Bytes blocks, int levels, const std::vector<NibbleMap>& maps) {
  std::uint64_t total = 0;
  for (std::size_t at = 0; at < blocks.size(); at += kBlockBytes) {
    const Bytes block = blocks.subspan(at, kBlockBytes);
    Counts counts{};
    for (const std::uint8_t byte : block) ++counts[byte & 15], ++counts[byte >> 4];
    const NibbleMap& map = maps[fit_subset(counts, levels)];
    for (std::uint8_t& byte : block) byte = static_cast<std::uint8_t>(map[byte & 15] | map[byte >> 4] << 4);
    total += deviation(counts, map).squared_error;
  }
  return total;
}

}  // namespace

BlockRemapper::BlockRemapper(int levels, std::string_view isa)
    : levels_(levels), isa_(isa), maps_(1u << kGridLevels) {
  for (unsigned set = 0; set < maps_.size(); ++set)
    if (std::popcount(set) == levels) maps_[set] = map_to(Granularity::block32, static_cast<LevelSet>(set));
}

std::uint64_t BlockRemapper::operator()(Bytes blocks) const {
#if defined(__x86_64__)
  if (isa_ == "avx512") return remap_blocks<64, fit_batch_avx512>(blocks, levels_, maps_);
  if (isa_ == "avx2") return remap_blocks<32, fit_batch_avx2>(blocks, levels_, maps_);
#endif
  return remap_blocks_scalar(blocks, levels_, maps_);
}

}  // namespace planesmith
