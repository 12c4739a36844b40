#include "chunks/in_order.h"

#include <vector>

#include "base/parallel.h"

namespace planesmith::chunks {

void Gate::wait(std::unique_lock<std::mutex>& lock, const std::function<bool()>& ready) {
  condition_.wait(lock, [&] { return failure_ || ready(); });
  if (failure_) std::rethrow_exception(failure_);
}

void Gate::guard(const std::function<void()>& work) {
  try {
    work();
  } catch (...) {
    const auto held = lock();
    if (!failure_) failure_ = std::current_exception();
    changed();
    std::rethrow_exception(failure_);  // the first one, the one that parallel_for hears of first
  }
}

void in_order(Gate& gate, std::size_t first, std::size_t count, int threads, std::size_t slots,
              const std::function<void(std::size_t, int, std::size_t)>& make,
              const std::function<void(std::size_t, std::size_t)>& take) {
  std::vector<bool> made(slots, false);
  std::size_t next = first;  // to be taken
  bool taking = false;
  parallel_for(count - first, threads, [&](std::size_t i, int worker) {
    gate.guard([&] {
      const std::size_t index = first + i, slot = index % slots;
      auto lock = gate.lock();
      gate.wait(lock, [&] { return index < next + slots; });
      lock.unlock();
      make(index, worker, slot);
      lock.lock();
      made[slot] = true;
      if (taking) return;
      taking = true;
      while (next < count && made[next % slots]) {
        made[next % slots] = false;
        lock.unlock();
        take(next, next % slots);
        lock.lock();
        ++next;
        gate.changed();
      }
      taking = false;
    });
  });
}

}  // namespace planesmith::chunks
