// Stands in for the CUDA backend where it is not built.
#include "quant/backend.h"

namespace planesmith {

bool cuda_built_in() {
  return false;
}

bool cuda_has_driver(std::string& why) {
#ifdef PLANESMITH_PORTABLE
  why =
      "the portable programs are built without it; it comes with the ordinary build, made from source where "
      "the CUDA toolkit is installed (scripts/quickstart.sh)";
#else
  why = "these programs were built without it; build them where the CUDA toolkit is installed";
#endif
  return false;
}

std::unique_ptr<Backend> make_cuda_backend(const std::vector<std::uint64_t>&, std::string& why) {
  cuda_has_driver(why);
  return nullptr;
}

}  // namespace planesmith
