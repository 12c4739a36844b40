// The CPU's quantizer with every instruction set (cuda_test.cc: GPUs).
#include "quant/quantizer.h"

#include "unit/quantizer_cases.h"

namespace planesmith::testing {

TEST_CASE("the CPU's quantizer gives the reference's bytes") {
  for (const Kernels* kernels : available_kernels()) {
    CAPTURE(kernels->name);
    const std::unique_ptr<Backend> cpu = make_cpu_backend(*kernels);
    const std::unique_ptr<Quantizer> quantizer = cpu->make_quantizer(0);
    check_edges(*cpu, *quantizer);
    check_nonfinite(*cpu, *quantizer);
    check_drawn(*cpu, *quantizer, 60);
    check_workers(*cpu);
    check_errors(*cpu, *quantizer);
  }
}

TEST_CASE("the CPU's quantizer: all 16-bit values") {
  const std::unique_ptr<Backend> cpu = make_cpu_backend(choose_kernels("auto"));
  check_all_halves(*cpu, *cpu->make_quantizer(0));
}

}  // namespace planesmith::testing
