// Blocks with codebooks of their own: every instruction set against the scalar code.
#include "codebook/block_fit.h"

#include <doctest/doctest.h>

#include <random>

#include "quant/kernels.h"

using namespace planesmith;

namespace {

// Blocks of every kind: spread, of few values, at the ends of the range (the highest costs), constant.
std::vector<std::uint8_t> some_blocks(std::size_t count, unsigned seed) {
  std::mt19937 random(seed);
  std::vector<std::uint8_t> bytes(count * kBlockBytes);
  for (std::size_t b = 0; b < count; ++b) {
    const unsigned kind = random() % 5, pick = random();
    for (int p = 0; p < kBlockBytes; ++p) {
      std::uint8_t& byte = bytes[b * kBlockBytes + static_cast<std::size_t>(p)];
      byte = static_cast<std::uint8_t>(random());
      if (kind == 1) byte &= static_cast<std::uint8_t>(pick);
      if (kind == 2) byte |= 0x77;
      if (kind == 3) byte = static_cast<std::uint8_t>(pick);
      if (kind == 4) byte &= 0x33;
    }
  }
  return bytes;
}

}  // namespace

TEST_CASE("blocks are fitted and mapped as fit_subset and map_to say, on every instruction set") {
  const std::vector<std::uint8_t> original = some_blocks(403, 3);  // whole batches of each width and a rest
  for (int levels = 2; levels <= 14; ++levels) {
    CAPTURE(levels);
    std::vector<std::uint8_t> want = original;
    std::uint64_t squared_error = 0;
    for (std::size_t at = 0; at < want.size(); at += kBlockBytes) {
      Counts counts{};
      for (int p = 0; p < kBlockBytes; ++p) ++counts[want[at + p] & 15], ++counts[want[at + p] >> 4];
      const NibbleMap map = map_to(Granularity::block32, fit_subset(counts, levels));
      for (int p = 0; p < kBlockBytes; ++p)
        want[at + p] = static_cast<std::uint8_t>(map[want[at + p] & 15] | map[want[at + p] >> 4] << 4);
      squared_error += deviation(counts, map).squared_error;
    }
    for (const Kernels* kernels : available_kernels()) {
      CAPTURE(kernels->name);
      std::vector<std::uint8_t> got = original;
      CHECK(BlockRemapper(levels, kernels->name)(got) == squared_error);
      CHECK(got == want);
    }
  }
}

TEST_CASE("any number of blocks") {
  for (const Kernels* kernels : available_kernels())
    for (const std::size_t count : {0, 1, 15, 16, 31, 32, 33, 63, 64, 65}) {
      std::vector<std::uint8_t> got = some_blocks(count, 8), want = got;
      CHECK(BlockRemapper(4, kernels->name)(got) == BlockRemapper(4, "scalar")(want));
      CHECK(got == want);
    }
}
