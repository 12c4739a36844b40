#include "quant/kernels.h"

#include <string>
#include <vector>

#include "base/error.h"
#include "base/text.h"

namespace planesmith {
namespace {

std::vector<const Kernels*> find_available() {
  std::vector<const Kernels*> available = {&kScalarKernels};
#if defined(__x86_64__)
  // The builtin also knows whether the operating system keeps the wide registers.
  if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("bmi2") || !__builtin_cpu_supports("f16c"))
    return available;
  available.push_back(&kAvx2Kernels);
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
      __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq") &&
      __builtin_cpu_supports("avx512vbmi") && __builtin_cpu_supports("avx512vpopcntdq"))
    available.push_back(&kAvx512Kernels);
#endif
  return available;
}

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
  if (isa == "avx2" || isa == "avx512")
    throw Error("this machine cannot run the " + std::string(isa) + " kernels; use --isa auto");
  throw Error(ErrorCode::usage, "", "--isa: '" + printable(isa) + "' is none of auto, scalar, avx2, avx512");
}

}  // namespace planesmith
