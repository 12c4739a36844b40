#include "quant/backend.h"

#include <fmt/format.h>

#include "base/error.h"

namespace planesmith {

std::unique_ptr<Backend> make_backend(const BackendChoice& choice) {
  if (choice.backend != "auto" && choice.backend != "cpu" && choice.backend != "cuda")
    throw Error(ErrorCode::usage, "", fmt::format("backend '{}' is none of auto, cpu, cuda", choice.backend));
  if (!choice.gpus.empty() && choice.backend == "cpu")
    throw Error(ErrorCode::usage, "", "--gpus goes with --backend cuda or auto, not with cpu");
  // An explicit instruction set is a request for the CPU, a list of GPUs one for these.
  const bool asked = choice.backend == "cuda" || !choice.gpus.empty();
  const bool try_cuda = asked || (choice.backend == "auto" && choice.isa == "auto");
  if (try_cuda) {
    std::string why;
    if (std::unique_ptr<Backend> cuda = make_cuda_backend(choice.gpus, why)) return cuda;
    if (asked) throw Error(fmt::format("no CUDA backend: {}", why));
  }
  return make_cpu_backend(choose_kernels(choice.isa));
}

}  // namespace planesmith
