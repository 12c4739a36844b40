#include "chunks/in_order.h"

#include <map>
#include <optional>

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
    std::rethrow_exception(failure_);  // in all threads the first one, so that parallel_for reports it
  }
}

namespace {

struct Sequence {
  std::size_t length = 0, next_make = 0, next_take = 0;
  std::map<std::size_t, std::size_t> made{};  // index -> slot
  bool taking = false;

  std::size_t in_flight() const { return next_make - next_take; }
  bool open() const { return next_make != 0 && next_take != length; }
  bool ready() const { return !taking && made.contains(next_take); }
};

// Chooses the sequence that a thread works on. Call with the gate's lock held.
class Choice {
 public:
  Choice(const std::vector<std::size_t>& lengths, const Lanes& lanes) : at_once_(lanes.at_once) {
    for (const std::size_t length : lengths) sequences_.push_back({.length = length});
    for (std::size_t slot = lanes.slots; slot-- > 0;) free_slots_.push_back(slot);
  }

  Sequence& operator[](std::size_t sequence) { return sequences_[sequence]; }

  bool done() {
    while (first_ < sequences_.size() && sequences_[first_].next_take == sequences_[first_].length) ++first_;
    return first_ == sequences_.size();
  }
  std::optional<std::size_t> to_take() const {
    for (std::size_t s = first_; s < begun_; ++s)
      if (sequences_[s].ready()) return s;
    return {};
  }
  // The sequence with the fewest indices in flight; a new one if every open one has some.
  std::optional<std::size_t> to_make() const {
    if (free_slots_.empty()) return {};
    std::optional<std::size_t> best;
    std::size_t open = 0;
    for (std::size_t s = first_; s < begun_; ++s) {
      const Sequence& candidate = sequences_[s];
      open += candidate.open() ? 1 : 0;
      if (candidate.next_make == candidate.length) continue;
      if (!best || candidate.in_flight() < sequences_[*best].in_flight()) best = s;
    }
    std::size_t next = begun_;
    while (next < sequences_.size() && sequences_[next].length == 0) ++next;
    if (next < sequences_.size() && open < at_once_ && (!best || sequences_[*best].in_flight() != 0))
      return next;
    return best;
  }
  void begin(std::size_t sequence) { begun_ = std::max(begun_, sequence + 1); }
  std::size_t take_slot() {
    const std::size_t slot = free_slots_.back();
    free_slots_.pop_back();
    return slot;
  }
  void free_slot(std::size_t slot) { free_slots_.push_back(slot); }

 private:
  const std::size_t at_once_;
  std::vector<Sequence> sequences_;
  std::size_t first_ = 0, begun_ = 0;  // those before first_ are done, those from begun_ on not begun
  std::vector<std::size_t> free_slots_;
};

}  // namespace

void side_by_side(Gate& gate, const std::vector<std::size_t>& lengths, const Lanes& lanes,
                  const std::function<void(std::size_t, std::size_t, int, std::size_t)>& make,
                  const std::function<void(std::size_t, std::size_t, std::size_t)>& take) {
  Choice choice(lengths, lanes);
  const auto work = [&](int worker) {
    auto lock = gate.lock();
    for (;;) {
      gate.wait(lock, [&] { return choice.done() || choice.to_take() || choice.to_make(); });
      if (choice.done()) return;
      if (const auto s = choice.to_take()) {
        Sequence& sequence = choice[*s];
        const auto next = sequence.made.extract(sequence.next_take);
        sequence.taking = true;
        lock.unlock();
        take(*s, next.key(), next.mapped());
        lock.lock();
        sequence.taking = false;
        ++sequence.next_take;
        choice.free_slot(next.mapped());
      } else {
        const std::size_t made = *choice.to_make(), slot = choice.take_slot(),
                          index = choice[made].next_make++;
        choice.begin(made);
        lock.unlock();
        make(made, index, worker, slot);
        lock.lock();
        choice[made].made[index] = slot;
      }
      gate.changed();
    }
  };
  const auto threads = static_cast<std::size_t>(lanes.threads);
  parallel_for(threads, lanes.threads, [&](std::size_t, int worker) { gate.guard([&] { work(worker); }); });
}

}  // namespace planesmith::chunks
