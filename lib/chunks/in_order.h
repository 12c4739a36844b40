// Work that is done by several threads at once and whose results are wanted in order.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <exception>
#include <functional>
#include <mutex>
#include <vector>

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

struct Lanes {
  int threads = 1;
  std::size_t slots = 1;    // at least one; results that wait for their turn
  std::size_t at_once = 1;  // at least one; sequences that are begun and not finished
};

// Sequences of work, one beside the other: make(sequence, index, worker, slot) for each index below the
// sequence's length, begun in ascending order, and for each that is made take(sequence, index, slot) in
// ascending order, one at a time in each sequence, by any thread. At most lanes.slots indices are between the
// start of make and the end of take; `slot` tells them apart.
void side_by_side(
    Gate& gate, const std::vector<std::size_t>& lengths, const Lanes& lanes,
    const std::function<void(std::size_t sequence, std::size_t index, int worker, std::size_t slot)>& make,
    const std::function<void(std::size_t sequence, std::size_t index, std::size_t slot)>& take);

}  // namespace planesmith::chunks
