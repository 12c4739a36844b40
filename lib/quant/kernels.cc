#include "quant/kernels.h"

#include <string>
#include <vector>

#include "base/error.h"

namespace planesmith {
namespace {

std::vector<const Kernels*> find_available() {
  return {&kScalarKernels};
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
