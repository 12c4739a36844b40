#include "quant/backend.h"

#include <fmt/format.h>

#include "base/error.h"
#include "quant/starting_backend.h"

namespace planesmith {
namespace {

Error no_cuda_backend(const std::string& why) {
  return Error(fmt::format("no CUDA backend: {}", why));
}

}  // namespace

std::unique_ptr<Backend> make_backend(const BackendChoice& choice) {
  if (choice.backend != "auto" && choice.backend != "cpu" && choice.backend != "cuda")
    throw Error(ErrorCode::usage, "",
                fmt::format("backend '{}' is not one of auto, cpu, cuda", choice.backend));
  if (!choice.gpus.empty() && choice.backend == "cpu")
    throw Error(ErrorCode::usage, "", "--gpus cannot be used with --backend cpu");
  // An explicit instruction set is a request for the CPU, a list of GPUs one for these.
  const bool asked = choice.backend == "cuda" || !choice.gpus.empty();
  // What goes to a GPU and comes back is still read, hashed and written by the cores, which costs them more
  // than their own vector kernels do while the data are in the caches. Measured with 2 to 32 threads the CPU
  // is faster (docs/PERFORMANCE.md), so a GPU pays where it has the scalar kernels only.
  const Kernels& kernels = choose_kernels(choice.isa);
  if (asked || (choice.isa == "auto" && kernels.name == "scalar")) {
    std::string why;
    if (cuda_has_driver(why))
      return std::make_unique<StartingBackend>(
          [gpus = choice.gpus, asked] {
            std::string reason;
            std::unique_ptr<Backend> cuda = make_cuda_backend(gpus, reason);
            if (!cuda && asked) throw no_cuda_backend(reason);
            return cuda;
          },
          kCudaPieces, make_cpu_backend(kernels));
    if (asked) throw no_cuda_backend(why);
  }
  return make_cpu_backend(kernels);
}

}  // namespace planesmith
