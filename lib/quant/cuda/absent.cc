// Stands in for the CUDA backend where it is not built.
#include "quant/backend.h"

namespace planesmith {

bool cuda_built_in() {
  return false;
}

std::unique_ptr<Backend> make_cuda_backend(const std::vector<std::uint64_t>&, std::string& why) {
  why = "these programs were built without it; build them where the CUDA toolkit is installed";
  return nullptr;
}

}  // namespace planesmith
