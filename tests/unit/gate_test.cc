// repack-experts gate: passes with correct kernels and fails with a wrong one.
#include "repack/gate.h"

#include <doctest/doctest.h>

#include "base/error.h"

using namespace planesmith;

namespace {

const std::string kMini = SOURCE_DIR "/tests/golden/ds4-mini/checkpoint";

// Forgets the sign of zeros.
void remap_badly(std::uint8_t* data, std::size_t n, const std::uint8_t map[16]) noexcept {
  for (std::size_t i = 0; i < n; ++i) {
    const unsigned low = map[data[i] & 15], high = map[data[i] >> 4];
    data[i] = static_cast<std::uint8_t>((low == 8 ? 0 : low) | (high == 8 ? 0 : high) << 4);
  }
}

}  // namespace

TEST_CASE("16 levels give back identical bytes with every instruction set") {
  for (const Kernels* kernels : available_kernels()) {
    const GateResult result = gate(Context{.threads = 2}, kMini, {}, *kernels);
    CHECK(result.differences.empty());
    REQUIRE(result.files.size() == 2);
    CHECK(result.files[0].name == "model-00002-of-00004.safetensors");
    CHECK(result.files[0].tensors == 9);
    CHECK(result.files[0].bytes == 9 * 12288);
  }
}

TEST_CASE("one shard of several; only those with experts") {
  CHECK(gate(Context{}, kMini, {"model-00003-of-00004.safetensors"}, kScalarKernels).files.size() == 1);
  for (const char* name : {"model-00001-of-00004.safetensors", "model-00004-of-00004.safetensors", "x"})
    CHECK_THROWS_AS(gate(Context{}, kMini, {name}, kScalarKernels), Error);
}

TEST_CASE("a kernel that errs is caught, in every granularity, once for each tensor") {
  Kernels bad = kScalarKernels;
  bad.remap = remap_badly;
  const GateResult result = gate(Context{.threads = 2}, kMini, {}, bad);
  REQUIRE(result.differences.size() == 18 * std::size(kGranularities));
  const GateResult::Difference& first = result.differences[0];
  CHECK(first.file == "model-00002-of-00004.safetensors");
  CHECK(first.tensor == "layers.0.ffn.experts.0.w1.weight");
  CHECK(first.granularity == Granularity::tensor);
  CHECK(result.differences[1].granularity == Granularity::tensor_sym);
  CHECK((first.was & 0x0F) == ((first.was & 0x0F) == 8 ? 8 : first.became & 0x0F));
  CHECK(first.was != first.became);
}
