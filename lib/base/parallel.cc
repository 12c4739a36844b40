#include "base/parallel.h"

#include <omp.h>

#include <algorithm>
#include <atomic>
#include <exception>
#include <mutex>

namespace planesmith {

void parallel_for(std::size_t count, int threads, const std::function<void(std::size_t, int)>& work) {
  const int team =
      static_cast<int>(std::min<std::size_t>(static_cast<std::size_t>(std::max(threads, 1)), count));
  std::atomic<std::size_t> next{0};
  std::atomic<bool> failed{false};
  std::exception_ptr first;
  std::mutex first_mutex;
  const auto loop = [&](int worker) {
    while (!failed) {
      const std::size_t index = next.fetch_add(1);
      if (index >= count) return;
      try {
        work(index, worker);
      } catch (...) {
        const std::lock_guard<std::mutex> lock(first_mutex);
        if (!first) first = std::current_exception();
        failed = true;
      }
    }
  };
  if (team <= 1) {
    loop(0);
  } else {
#pragma omp parallel num_threads(team)
    loop(omp_get_thread_num());
  }
  if (first) std::rethrow_exception(first);
}

int hardware_threads() {
  return omp_get_num_procs();
}

}  // namespace planesmith
