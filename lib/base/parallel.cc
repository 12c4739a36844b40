#include "base/parallel.h"

#include <malloc.h>
#include <sys/resource.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <exception>
#include <limits>
#include <memory>
#include <mutex>
#include <new>
#include <system_error>
#include <thread>

namespace planesmith {
namespace {

// With limited address space (ulimit -v), threads share one heap, because each heap reserves 64 MiB.
void share_heap_where_address_space_is_limited() {
  static const bool done = [] {
    struct rlimit limit {};
    if (getrlimit(RLIMIT_AS, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY) mallopt(M_ARENA_MAX, 1);
    return true;
  }();
  static_cast<void>(done);
}

// The threads beside the calling one. They wait until all have started: a machine that refuses a thread has
// no memory left for the work of the others either, so half of the started threads end then.
class Team {
 public:
  Team(int wanted, const std::function<void(int worker)>& loop) {
    share_heap_where_address_space_is_limited();
    bool refused = false;
    try {
      for (int worker = 1; worker <= wanted; ++worker)
        threads_.emplace_back([this, worker, &loop] {
          if (may_work(worker)) loop(worker);
        });
    } catch (const std::system_error&) {
      refused = true;
    } catch (const std::bad_alloc&) {
      refused = true;
    }
    if (refused) {
      const std::size_t kept = threads_.size() / 2;
      tell(most_, static_cast<int>(kept));
      while (threads_.size() > kept) {  // frees their stacks
        threads_.back().join();
        threads_.pop_back();
      }
    }
    tell(begun_, true);
  }
  ~Team() {
    for (std::thread& thread : threads_) thread.join();
  }

 private:
  template <typename Value>
  void tell(Value& what, Value value) {
    const std::lock_guard<std::mutex> lock(mutex_);
    what = value;
    changed_.notify_all();
  }
  // Waits for the start; false: the thread is to end.
  bool may_work(int worker) {
    std::unique_lock<std::mutex> lock(mutex_);
    changed_.wait(lock, [&] { return begun_ || worker > most_; });
    return worker <= most_;
  }

  std::vector<std::thread> threads_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool begun_ = false;
  int most_ = std::numeric_limits<int>::max();
};

// Assigns threads to lanes.
class Lanes {
 public:
  Lanes(const std::vector<std::size_t>& tasks, std::size_t most_open)
      : tasks_(tasks), most_open_(std::max<std::size_t>(most_open, 1)) {}

  struct Lane {
    Lane(std::size_t n, std::size_t count) : number(n), tasks(count) {}
    const std::size_t number, tasks;
    std::atomic<std::size_t> next{0};
    std::size_t threads = 0;
  };

  // A lane to work in; null: no work is left. Waits while lanes are left but none may begin.
  std::shared_ptr<Lane> enter() {
    std::unique_lock<std::mutex> lock(mutex_);
    for (;;) {
      if (failed_) return nullptr;
      while (begun_ < tasks_.size() && tasks_[begun_] == 0) ++begun_;
      if (begun_ < tasks_.size() && open_.size() < most_open_) {
        open_.push_back(std::make_shared<Lane>(begun_, tasks_[begun_]));
        ++begun_;
        return join(open_.back());
      }
      const auto left = [](const std::shared_ptr<Lane>& lane) {
        const std::size_t next = lane->next;
        return next < lane->tasks ? (lane->tasks - next) / (lane->threads + 1) + 1 : 0;
      };
      const auto most = std::max_element(open_.begin(), open_.end(),
                                         [&](const auto& a, const auto& b) { return left(a) < left(b); });
      if (most != open_.end() && left(*most) != 0) return join(*most);
      if (begun_ == tasks_.size()) return nullptr;
      changed_.wait(lock);
    }
  }

  void leave(const std::shared_ptr<Lane>& lane) {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (--lane->threads == 0) std::erase(open_, lane);
    changed_.notify_all();
  }

  void fail() {
    const std::lock_guard<std::mutex> lock(mutex_);
    failed_ = true;
    changed_.notify_all();
  }
  bool failed() const { return failed_; }

 private:
  std::shared_ptr<Lane> join(const std::shared_ptr<Lane>& lane) {
    ++lane->threads;
    changed_.notify_all();  // waiting threads can help in a new lane
    return lane;
  }

  const std::vector<std::size_t>& tasks_;
  const std::size_t most_open_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::size_t begun_ = 0;
  std::vector<std::shared_ptr<Lane>> open_;
  std::atomic<bool> failed_{false};
};

}  // namespace

void parallel_for(std::size_t count, int threads, const std::function<void(std::size_t, int)>& work) {
  const int team =
      static_cast<int>(std::min<std::size_t>(static_cast<std::size_t>(std::max(threads, 1)), count));
  std::atomic<std::size_t> next{0};
  std::atomic<bool> failed{false};
  std::exception_ptr first;
  std::mutex first_mutex;
  const std::function<void(int)> loop = [&](int worker) {
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
  {
    const Team others(team - 1, loop);
    loop(0);
  }
  if (first) std::rethrow_exception(first);
}

void parallel_lanes(const std::vector<std::size_t>& tasks, int threads, std::size_t most_open,
                    const std::function<void(std::size_t, std::size_t, int)>& work) {
  std::size_t total = 0;
  for (const std::size_t each : tasks) total += each;
  Lanes lanes(tasks, most_open);
  const std::size_t team = std::min<std::size_t>(static_cast<std::size_t>(std::max(threads, 1)), total);
  parallel_for(team, static_cast<int>(team), [&](std::size_t, int worker) {
    try {
      while (const auto lane = lanes.enter()) {
        for (std::size_t task; !lanes.failed() && (task = lane->next.fetch_add(1)) < lane->tasks;)
          work(lane->number, task, worker);
        lanes.leave(lane);
      }
    } catch (...) {
      lanes.fail();
      throw;
    }
  });
}

}  // namespace planesmith
