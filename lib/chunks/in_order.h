// Work by several threads whose results are needed in order.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <exception>
#include <functional>
#include <mutex>
#include <vector>

namespace planesmith::chunks {

// Lets workers wait for each other. Once one has failed, all current and later waits fail too.
class Gate {
 public:
  // Waits until `ready()`, called with the lock held, is true.
  void wait(std::unique_lock<std::mutex>& lock, const std::function<bool()>& ready);
  std::unique_lock<std::mutex> lock() { return std::unique_lock(mutex_); }
  void changed() { condition_.notify_all(); }
  // Runs work; if it throws, the waits of the other workers throw the same.
  void guard(const std::function<void()>& work);

 private:
  std::mutex mutex_;
  std::condition_variable condition_;
  std::exception_ptr failure_;
};

struct Lanes {
  int threads = 1;
  std::size_t slots = 1;    // at least one; indices between the start of make and the end of take
  std::size_t at_once = 1;  // at least one; sequences that have begun and not ended
};

// Runs sequences of work side by side: make(sequence, index, worker, slot) for each index below the
// sequence's length, begun in ascending order, and then take(sequence, index, slot) in ascending order, one
// at a time in each sequence, by any thread. `slot` identifies one of the lanes.slots indices between the
// start of make and the end of take.
void side_by_side(
    Gate& gate, const std::vector<std::size_t>& lengths, const Lanes& lanes,
    const std::function<void(std::size_t sequence, std::size_t index, int worker, std::size_t slot)>& make,
    const std::function<void(std::size_t sequence, std::size_t index, std::size_t slot)>& take);

}  // namespace planesmith::chunks
