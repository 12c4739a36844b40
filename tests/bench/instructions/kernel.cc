// kernel ISA NAME TIMES: runs one kernel over a small slice TIMES times, for count.sh; without arguments it
// prints the names and how many elements each run converts.
#include <cstdio>
#include <cstdlib>
#include <string_view>
#include <vector>

#include "quant/kernels.h"
#include "unit/kernel_inputs.h"

using namespace planesmith;
using namespace planesmith::testing;

namespace {

constexpr std::uint64_t kRows = 32, kCols = 1024, kElements = kRows * kCols;

std::vector<std::uint8_t> random(std::size_t n, unsigned mask, unsigned add) {
  const Draw draw = random_bytes(n);
  std::vector<std::uint8_t> out(n);
  for (std::uint8_t& byte : out) byte = static_cast<std::uint8_t>((draw() & mask) + add);
  return out;
}

// Weights of each family and their scales: ordinary values, zeros and subnormals among them.
struct Inputs {
  std::vector<std::uint8_t> nibbles = random(kElements / 2, 0xFF, 0), e4m3 = random(kElements, 0xBF, 0),
                            e8m0 = random(kElements / 32, 0x0F, 110),
                            group = random(kElements / 16, 0x1F, 0x30);
  std::vector<std::uint8_t> blocks = random(kCols / 128, 0x03, 118), bf16 = random(2 * kElements, 0x7F, 0);
  Inputs() {
    for (std::size_t i = 1; i < bf16.size(); i += 2)
      bf16[i] = static_cast<std::uint8_t>(0x3B + bf16[i] % 2 + bf16[i] / 64 * 128);
  }
  Mxfp4Slice mxfp4() const { return {kRows, kCols, nibbles.data(), kCols / 2, e8m0.data(), kCols / 32}; }
  Fp8Slice fp8() const {
    return {kRows, kCols, e4m3.data(), kCols, blocks.data(), kCols / 128, 128, 128, ScaleType::e8m0};
  }
  Nvfp4Slice nvfp4() const {
    return {kRows, kCols, nibbles.data(), kCols / 2, group.data(), kCols / 16, 0x1.8p-12f};
  }
  FloatValues floats() const { return {bf16.data(), FloatType::bf16, kElements}; }
};

struct Row {
  const char* name;
  void (*run)(const Kernels&, Inputs&, const PlaneTarget& base, const PlaneTarget& all);
};
ZeroCount zeros;
std::uint64_t counts[16];
const Row kTable[] = {
    {"MXFP4 to base planes", [](auto& k, auto& in, auto& base, auto&) { k.mxfp4(in.mxfp4(), base); }},
    {"MXFP4 to all planes", [](auto& k, auto& in, auto&, auto& all) { k.mxfp4(in.mxfp4(), all); }},
    {"FP8 to all planes",
     [](auto& k, auto& in, auto&, auto& all) { k.fp8(in.fp8(), ZeroSigns::keep, all, nullptr); }},
    {"FP8 to all planes, zeros counted",
     [](auto& k, auto& in, auto&, auto& all) { k.fp8(in.fp8(), ZeroSigns::alternate, all, &zeros); }},
    {"NVFP4 to all planes",
     [](auto& k, auto& in, auto&, auto& all) { k.nvfp4(in.nvfp4(), ZeroSigns::keep, all, nullptr); }},
    {"NVFP4 to all planes, zeros counted",
     [](auto& k, auto& in, auto&, auto& all) { k.nvfp4(in.nvfp4(), ZeroSigns::alternate, all, &zeros); }},
    {"nibbles to quintals",
     [](auto& k, auto& in, auto&, auto& all) {
       k.from_nibbles(in.nibbles.data(), kElements / 1024, nullptr, all.quintals);
     }},
    {"histogram",
     [](auto& k, auto& in, auto&, auto&) { k.histogram(in.nibbles.data(), in.nibbles.size(), counts); }},
    {"remap",
     [](auto& k, auto& in, auto&, auto&) { k.remap(in.nibbles.data(), in.nibbles.size(), in.bf16.data()); }},
    {"BF16 to NVFP4",
     [](auto& k, auto& in, auto&, auto& all) { k.to_nvfp4(in.floats(), 0x1p-9f, all.nibbles, all.codes); }},
    {"BF16 to MXFP4",
     [](auto& k, auto& in, auto&, auto& all) { k.to_mxfp4(in.floats(), all.nibbles, all.scales); }},
    {"BF16, largest magnitude", [](auto& k, auto& in, auto&, auto&) { k.max_magnitude(in.floats()); }},
};

}  // namespace

int main(int argc, char** argv) {
  if (argc != 4) {
    for (const Row& row : kTable)
      std::printf("%llu %s\n", static_cast<unsigned long long>(kElements), row.name);
    return argc != 1;
  }
  const Kernels& kernels = choose_kernels(argv[1]);
  Inputs inputs;
  Planes planes(kRows, kCols, 0);
  const PlaneTarget all = planes.target(15, false);
  PlaneTarget base = all;
  base.quintals = nullptr;
  for (const Row& row : kTable)
    if (row.name == std::string_view(argv[2]))
      for (long times = std::atol(argv[3]); times > 0; --times) row.run(kernels, inputs, base, all);
}
