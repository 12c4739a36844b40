// Input: what to draw slices from (unit/kernel_inputs.h); once it is used up, the draws continue at random.
// Every set of kernels that this machine can run must give what the scalar reference gives, and write nowhere
// else.
#include <algorithm>

#include "require.h"
#include "unit/kernel_inputs.h"

using namespace planesmith;
using namespace planesmith::testing;

namespace {

Draw draws_from(const std::uint8_t* data, std::size_t size) {
  std::uint64_t seed = size;
  for (std::size_t i = 0; i < size; ++i) seed = (seed ^ data[i]) * 0x100000001B3;
  return [data, end = data + size, rest = random_bytes(seed)]() mutable {
    return data < end ? *data++ : rest();
  };
}

template <typename Case>
void conversion(Case drawn, const Draw& draw) {
  const bool spoiled = draw() % 8 == 0;
  if (spoiled) spoil(drawn, draw);
  const auto& slice = drawn.slice;
  require(find_nonfinite(slice).found == spoiled);
  const ZeroSigns signs = draw() & 1 ? ZeroSigns::alternate : ZeroSigns::keep;
  const unsigned wanted = draw() & 1 ? 15 : draw() & 15u;
  const bool stream = draw() & 1, count = draw() & 1;
  const std::uint64_t lead = draw() & 1 ? draw() & 63u : 0;
  const auto run = [&](const Kernels& kernels, Planes& planes) {
    return convert(kernels, slice, signs, planes.target(wanted, stream), count ? &planes.zeros : nullptr);
  };
  Planes expected(slice.rows, slice.cols, lead);
  require(run(kScalarKernels, expected) == !spoiled);
  for (const Kernels* kernels : available_kernels()) {
    Planes planes(slice.rows, slice.cols, lead);
    require(run(*kernels, planes) == !spoiled);
    if (spoiled) continue;  // what is written then is not specified
    require(planes.bytes() == expected.bytes());
    require(planes.zeros.zeros == expected.zeros.zeros && planes.zeros.negative == expected.zeros.negative);
  }
}

std::vector<std::uint8_t> draw_bytes(const Draw& draw, std::size_t n) {
  std::vector<std::uint8_t> bytes(n);
  std::generate(bytes.begin(), bytes.end(), draw);
  return bytes;
}

void from_nibbles(const Draw& draw) {
  const std::uint64_t tiles = draw() % 6u;
  const std::vector<std::uint8_t> nibbles = draw_bytes(draw, tiles * format::kNibbleTile);
  const bool with_codes = draw() & 1;
  const auto planes = [&](const Kernels& kernels) {
    std::vector<std::uint8_t> codes(tiles * format::kCodeTile), quintals(tiles * format::kQuintalTile);
    kernels.from_nibbles(nibbles.data(), tiles, with_codes ? codes.data() : nullptr, quintals.data());
    codes.insert(codes.end(), quintals.begin(), quintals.end());
    return codes;
  };
  for (const Kernels* kernels : available_kernels()) require(planes(*kernels) == planes(kScalarKernels));
}

void histogram_and_remap(const Draw& draw) {
  const std::vector<std::uint8_t> data = draw_bytes(draw, draw_below(draw, 3000));
  std::vector<std::uint8_t> map = draw_bytes(draw, 16);
  for (std::uint8_t& nibble : map) nibble &= 15;
  const auto counts = [&](const Kernels& kernels) {
    std::vector<std::uint64_t> counts(16, 7);  // added to, not set
    kernels.histogram(data.data(), data.size(), counts.data());
    return counts;
  };
  const auto remapped = [&](const Kernels& kernels) {
    std::vector<std::uint8_t> out = data;
    kernels.remap(out.data(), out.size(), map.data());
    return out;
  };
  for (const Kernels* kernels : available_kernels()) {
    require(counts(*kernels) == counts(kScalarKernels));
    require(remapped(*kernels) == remapped(kScalarKernels));
  }
}

// Finite floats to FP4, and what that costs, with a global scale that fits them or any other.
void floats(const Draw& draw) {
  const FloatType type = kTypes[draw() % 3u];
  const std::uint64_t count = 32 * draw_below(draw, 70);
  const std::vector<std::uint8_t> bytes = draw_values(draw, type, count, draw() % 4 == 0);
  const FloatValues values{bytes.data(), type, count};
  const float amax = kScalarKernels.max_magnitude(values);
  float scale_2 = nvfp4_scale_2(amax);
  if (draw() % 4 == 0)
    scale_2 = std::ldexp(1 + static_cast<float>(draw()) / 256, static_cast<int>(draw()) - 149);
  if (!std::isfinite(scale_2)) scale_2 = 1;
  const auto made = [&](const Kernels& kernels) {
    std::vector<std::uint8_t> out(count / 2 + count / 16 + count / 2 + count / 32 + sizeof(FloatErrors));
    std::uint8_t *const nibbles = out.data(), *const scales = nibbles + count / 2,
                        *const others = scales + count / 16;
    kernels.to_nvfp4(values, scale_2, nibbles, scales);
    kernels.to_mxfp4(values, others, others + count / 2);
    FloatErrors errors;
    kernels.add_errors(values, nibbles, scales, scale_2, errors);
    std::memcpy(others + count / 2 + count / 32, &errors, sizeof errors);
    return out;
  };
  for (const Kernels* kernels : available_kernels()) {
    require(kernels->max_magnitude(values) == amax);
    require(made(*kernels) == made(kScalarKernels));
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const Draw draw = draws_from(data, size);
  switch (draw() % 6) {
    case 0:
      conversion(draw_mxfp4(draw), draw);
      break;
    case 1:
      conversion(draw_fp8(draw), draw);
      break;
    case 2:
      conversion(draw_nvfp4(draw), draw);
      break;
    case 3:
      from_nibbles(draw);
      break;
    case 4:
      floats(draw);
      break;
    default:
      histogram_and_remap(draw);
  }
  return 0;
}
