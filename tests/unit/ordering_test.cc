// Work made by several threads and taken in order (chunks/in_order.h).
#include <doctest/doctest.h>

#include <atomic>
#include <mutex>
#include <set>
#include <stdexcept>
#include <thread>
#include <vector>

#include "chunks/in_order.h"

using namespace planesmith::chunks;

namespace {

struct Run {
  std::vector<std::vector<std::size_t>> taken;  // of each sequence: indices
  std::size_t most_in_flight = 0, most_open = 0;
};

Run run(const std::vector<std::size_t>& lengths, const Lanes& lanes) {
  Run out;
  out.taken.resize(lengths.size());
  Gate gate;
  std::mutex mutex;
  std::set<std::size_t> slots, open;
  side_by_side(
      gate, lengths, lanes,
      [&](std::size_t sequence, std::size_t index, int worker, std::size_t slot) {
        {
          const std::lock_guard<std::mutex> lock(mutex);
          CHECK(worker < lanes.threads);
          CHECK(slot < lanes.slots);
          CHECK(slots.insert(slot).second);  // all different
          open.insert(sequence);
          out.most_in_flight = std::max(out.most_in_flight, slots.size());
          out.most_open = std::max(out.most_open, open.size());
        }
        if (index % 3 == 0) std::this_thread::yield();
      },
      [&](std::size_t sequence, std::size_t index, std::size_t slot) {
        const std::lock_guard<std::mutex> lock(mutex);
        out.taken[sequence].push_back(index);
        CHECK(slots.erase(slot) == 1);
        if (index + 1 == lengths[sequence]) open.erase(sequence);
      });
  CHECK(slots.empty());
  return out;
}

}  // namespace

TEST_CASE("each index is taken once, in ascending order in its sequence") {
  const std::vector<std::size_t> lengths = {7, 0, 1, 20, 5};
  for (const int threads : {1, 2, 5})
    for (const std::size_t slots : {std::size_t{1}, std::size_t{3}, std::size_t{64}})
      for (const std::size_t at_once : {std::size_t{1}, std::size_t{2}, std::size_t{9}}) {
        CAPTURE(threads);
        CAPTURE(slots);
        CAPTURE(at_once);
        const Run result = run(lengths, {threads, slots, at_once});
        for (std::size_t sequence = 0; sequence < lengths.size(); ++sequence) {
          REQUIRE(result.taken[sequence].size() == lengths[sequence]);
          for (std::size_t i = 0; i < lengths[sequence]; ++i) CHECK(result.taken[sequence][i] == i);
        }
        CHECK(result.most_in_flight <= slots);
        CHECK(result.most_open <= at_once);
      }
}

TEST_CASE("nothing to do is done at once") {
  CHECK(run({}, {4, 2, 2}).taken.empty());
  CHECK(run({0, 0}, {4, 2, 2}).most_in_flight == 0);
}

TEST_CASE("the first failure of making or taking ends all of them and is what is thrown") {
  for (const int threads : {1, 4})
    for (const bool in_make : {false, true}) {
      CAPTURE(threads);
      CAPTURE(in_make);
      Gate gate;
      std::atomic<int> made = 0;
      const auto fail_at = [](bool here, std::size_t index) {
        if (here && index == 10) throw std::runtime_error("tenth");
      };
      CHECK_THROWS_WITH(side_by_side(
                            gate, {1000}, {threads, 4, 1},
                            [&](std::size_t, std::size_t index, int, std::size_t) {
                              ++made;
                              fail_at(in_make, index);
                            },
                            [&](std::size_t, std::size_t index, std::size_t) { fail_at(!in_make, index); }),
                        "tenth");
      CHECK(made < 100);
    }
}

TEST_CASE("a thread that waits at a gate gets the error of the one that failed") {
  Gate gate;
  std::thread other([&] {
    try {
      gate.guard([] { throw std::runtime_error("the first"); });
    } catch (const std::runtime_error&) {
    }
  });
  auto lock = gate.lock();
  CHECK_THROWS_WITH(gate.wait(lock, [] { return false; }), "the first");
  lock.unlock();
  other.join();
}
