// Work that is done by several threads at once and whose results are wanted in order.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <exception>
#include <functional>
#include <mutex>

namespace planesmith::chunks {

// Lets workers wait for what other workers do. Once one of them has failed, all who wait or come to wait fail
// too.
class Gate {
 public:
  // Waits until `ready()`, asked with the lock held, is true.
  void wait(std::unique_lock<std::mutex>& lock, const std::function<bool()>& ready);
  std::unique_lock<std::mutex> lock() { return std::unique_lock(mutex_); }
  void changed() { condition_.notify_all(); }
  // Runs work; what it throws is passed on to the others as well.
  void guard(const std::function<void()>& work);

 private:
  std::mutex mutex_;
  std::condition_variable condition_;
  std::exception_ptr failure_;
};

// make(index, worker, slot) for index = first..count-1 on up to `threads` threads, and for each that is made
// take(index, slot) in ascending order, one at a time, by whichever thread comes by. At most `slots` indices
// are between the start of make and the end of take; `slot` (0..slots-1) tells them apart.
void in_order(Gate& gate, std::size_t first, std::size_t count, int threads, std::size_t slots,
              const std::function<void(std::size_t index, int worker, std::size_t slot)>& make,
              const std::function<void(std::size_t index, std::size_t slot)>& take);

}  // namespace planesmith::chunks
