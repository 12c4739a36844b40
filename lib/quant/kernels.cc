#include "quant/kernels.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/text.h"
#if defined(__x86_64__)
#include <cpuid.h>
#endif

namespace planesmith {
namespace {

#if defined(__x86_64__)
// What avx2.cc is compiled for; without LZCNT its instruction would run as another one and count otherwise.
// clang 14's __builtin_cpu_supports does not know F16C and LZCNT.
bool has_avx2() {
  unsigned a = 0, b = 0, c = 0, d = 0;
  return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("bmi") && __builtin_cpu_supports("bmi2") &&
         __builtin_cpu_supports("popcnt") && __get_cpuid(1, &a, &b, &c, &d) != 0 && (c & bit_F16C) != 0 &&
         __get_cpuid(0x80000001, &a, &b, &c, &d) != 0 && (c & bit_LZCNT) != 0;
}
// What avx512.cc needs in addition.
bool has_avx512() {
  return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
         __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq") &&
         __builtin_cpu_supports("avx512vbmi") && __builtin_cpu_supports("avx512vpopcntdq");
}
#endif

std::vector<const Kernels*> find_available() {
  std::vector<const Kernels*> available = {&kScalarKernels};
#if defined(__x86_64__)
  // The builtin also checks that the operating system saves the wide registers.
  if (!has_avx2()) return available;
  available.push_back(&kAvx2Kernels);
  if (has_avx512()) available.push_back(&kAvx512Kernels);
#elif defined(__aarch64__)
  available.push_back(&kNeonKernels);  // NEON is part of the base instruction set
#endif
  return available;
}

struct Run {
  const Kernels& kernels;
  const PlaneTarget& target;
  ZeroSigns signs;
  ZeroCount* zeros;
  bool operator()(const Mxfp4Slice& slice) const { return kernels.mxfp4(slice, target); }
  bool operator()(const Fp8Slice& slice) const { return kernels.fp8(slice, signs, target, zeros); }
  bool operator()(const Nvfp4Slice& slice) const { return kernels.nvfp4(slice, signs, target, zeros); }
};

}  // namespace

std::span<const Kernels* const> available_kernels() {
  static const std::vector<const Kernels*> available = find_available();
  return available;
}

const Kernels& choose_kernels(std::string_view isa) {
  const auto available = available_kernels();
  if (isa == "auto") return *available.back();
  for (const Kernels* kernels : available)
    if (kernels->name == isa) return *kernels;
  if (std::find(std::begin(kIsas), std::end(kIsas), isa) != std::end(kIsas))
    throw Error(fmt::format("this machine cannot run the {} kernels; use --isa auto", isa));
  throw Error(ErrorCode::usage, "",
              fmt::format("--isa: '{}' is not one of {}", printable(isa), fmt::join(kIsas, ", ")));
}

bool convert_slice(const Kernels& kernels, const Slice& slice, ZeroSigns signs, const PlaneTarget& target,
                   ZeroCount* zeros) {
  return std::visit(Run{kernels, target, signs, zeros}, slice);
}

NonFinite find_nonfinite(const Slice& slice) noexcept {
  return std::visit([](const auto& s) { return find_nonfinite(s); }, slice);
}

}  // namespace planesmith
