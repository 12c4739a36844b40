#include "hub/range_table.h"

#include <sys/mman.h>

#include <algorithm>

#include "base/error.h"
#include "base/size.h"
#include "base/text.h"

namespace planesmith::hub {
namespace {

constexpr int kTries = 8;  // for a range, without progress

// Uses huge pages if the size allows: a page fault for each 4 KiB is half of the cost of a transfer.
std::uint8_t* allocate(std::uint64_t size) {
  constexpr std::size_t kHuge = 2 * kMiB;
  const std::size_t alignment = size >= kHuge ? kHuge : 4 * kKiB;
  void* memory = nullptr;
  if (posix_memalign(&memory, alignment, size) != 0) throw std::bad_alloc();
  if (alignment == kHuge) madvise(memory, size, MADV_HUGEPAGE);
  return static_cast<std::uint8_t*>(memory);
}

std::vector<RangedFile> ranged(std::vector<RemoteSource> files) {
  std::vector<RangedFile> out;
  for (RemoteSource& file : files) out.push_back({.source = std::move(file)});
  return out;
}

}  // namespace

RangeInFlight::RangeInFlight(std::size_t at, const RemoteRange& range, RangedFile& of, bool again)
    : index(at), want(range), file(of), fresh(again), retries(of.source.name, kTries) {}

RangeTable::RangeTable(std::vector<RemoteSource> files, const std::vector<RemoteRange>& ranges,
                       const RangeOptions& options, Progress& progress, std::function<void()> wake)
    : options_(options),
      progress_(progress),
      wake_(std::move(wake)),
      files_(ranged(std::move(files))),
      in_order_(ranges.size()),
      connections_(options.connections) {
  for (const RemoteRange& range : ranges) add(range, false);
}

void RangeTable::add(const RemoteRange& want, bool again) {
  ranges_.emplace_back(ranges_.size(), want, files_.at(want.file), again);
}

std::size_t RangeTable::wait_any(std::span<const RangeFront> fronts) {
  std::size_t found = 0;
  std::unique_lock lock(mutex_);
  arrived_.wait(lock, [&] {
    if (failure_) return true;
    for (found = 0; found < fronts.size(); ++found) {
      RangeInFlight& range = ranges_.at(fronts[found].range);
      // Set before reading `received`:
      // arrived() counts first and then reads `awaited`, so one of them notices.
      if (range.awaited > fronts[found].size) range.awaited = fronts[found].size;
      if (range.received >= fronts[found].size) return true;
    }
    return false;
  });
  if (failure_) std::rethrow_exception(failure_);
  return found;
}

ConstBytes RangeTable::front(const RangeFront& front) const {
  const std::lock_guard lock(mutex_);
  return {ranges_.at(front.range).bytes.get(), static_cast<std::size_t>(front.size)};
}

void RangeTable::release(std::size_t r) {
  decltype(RangeInFlight::bytes) bytes{nullptr, &free};  // freed without the lock, because that is slow
  {
    const std::lock_guard lock(mutex_);
    RangeInFlight& range = ranges_.at(r);
    if (range.state == RangeState::released) return;
    if (range.state != RangeState::done) throw Error("a range was released before it was whole");
    range.state = RangeState::released;
    bytes.swap(range.bytes);
    held_ -= range.want.size;
    while (first_ < in_order_ && ranges_[first_].state == RangeState::released) ++first_;
  }
  wake_();
}

std::size_t RangeTable::add_again(const RemoteRange& want) {
  std::size_t r = 0;
  {
    const std::lock_guard lock(mutex_);
    if (failure_) std::rethrow_exception(failure_);
    r = ranges_.size();
    add(want, true);
    extra_.push_back(r);
  }
  wake_();
  return r;
}

bool RangeTable::may_start(const RangeInFlight& range) const {
  const bool alone = range.fresh || !range.file.ignores_ranges || range.file.transfers == 0;
  return alone && Clock::now() >= range.not_before;
}

// Allocates memory for a range; beyond the limit only for the first range that is not released.
bool RangeTable::make_room(RangeInFlight& range) {
  if (range.bytes) return true;
  const bool first = range.index == first_ || range.fresh;
  if (held_ != 0 && held_ + range.want.size > options_.memory && !first) return false;
  range.bytes.reset(allocate(range.want.size));
  held_ += range.want.size;
  return true;
}

std::optional<RangeTable::Start> RangeTable::start_next() {
  const std::lock_guard lock(mutex_);
  if (failure_ || ending_ || Clock::now() < hold_until_) return {};
  RangeInFlight* const range = find_next();
  if (range == nullptr) return {};
  RangedFile& file = range->file;
  if (range->fresh) file.direct.reset();
  range->state = RangeState::running;
  ++file.transfers;
  ++transfers_;
  return Start{*range, file.direct.value_or(file.source.url), file.direct.has_value()};
}

RangeInFlight* RangeTable::find_next() {
  if (!extra_.empty()) {
    RangeInFlight& range = ranges_[extra_.front()];
    extra_.pop_front();
    make_room(range);
    return &range;
  }
  // A transfer of the whole file may have fetched some of them meanwhile.
  std::erase_if(broken_, [&](std::size_t r) { return ranges_[r].state != RangeState::idle; });
  for (auto at = broken_.begin(); at != broken_.end(); ++at) {
    RangeInFlight& range = ranges_[*at];
    if (!may_start(range) || !make_room(range)) continue;
    broken_.erase(at);
    return &range;
  }
  // In order, but skips files that are being read because their server ignores ranges.
  while (next_ < in_order_ && ranges_[next_].state != RangeState::idle) ++next_;
  for (std::size_t r = next_; r < in_order_; ++r) {
    RangeInFlight& range = ranges_[r];
    if (range.state == RangeState::idle && may_start(range)) return make_room(range) ? &range : nullptr;
  }
  return nullptr;
}

void RangeTable::give_back(RangeInFlight& range) {
  range.state = RangeState::idle;
  broken_.push_back(range.index);
}

void RangeTable::arrived(RangeInFlight& range, std::uint64_t n) {
  const std::uint64_t received = range.received += n;
  if (received < range.awaited) return;
  {
    const std::lock_guard lock(mutex_);
    range.awaited = UINT64_MAX;  // waiting threads set it again
  }
  arrived_.notify_all();
}

RangeInFlight* RangeTable::complete(RangeInFlight& range, std::uint64_t n, bool reads_on) {
  RangeInFlight* next = nullptr;
  {
    const std::lock_guard lock(mutex_);
    range.received += n;
    range.state = RangeState::done;
    next = reads_on ? following(range) : nullptr;
    if (next != nullptr) next->state = RangeState::running;
  }
  arrived_.notify_all();
  return next;
}

// The next range of the same file that is neither running nor done.
RangeInFlight* RangeTable::following(const RangeInFlight& range) {
  for (std::size_t r = range.index + 1; r < in_order_; ++r)
    if (ranges_[r].want.file == range.want.file && ranges_[r].state == RangeState::idle) return &ranges_[r];
  return nullptr;
}

void RangeTable::read_whole(RangedFile& file, const void* transfer) {
  bool known = false;
  {
    const std::lock_guard lock(mutex_);
    known = file.ignores_ranges;
    file.ignores_ranges = true;
    file.whole = transfer;
  }
  wake_();
  if (!known)
    progress_.say(printable(file.source.name + ": the server ignores ranges; one connection reads the file "
                                               "from its front"));
}

bool RangeTable::is_superseded(const RangeInFlight& range, const void* transfer) const {
  const std::lock_guard lock(mutex_);
  return !range.fresh && range.file.whole != nullptr && range.file.whole != transfer;
}

RangeInFlight* RangeTable::take_over(RangeInFlight& range) {
  const std::lock_guard lock(mutex_);
  if (range.file.transfers > 1) return nullptr;
  for (std::size_t r = 0; r < range.index; ++r)
    if (ranges_[r].want.file == range.want.file && ranges_[r].state == RangeState::idle) {
      give_back(range);
      ranges_[r].state = RangeState::running;
      return &ranges_[r];
    }
  return &range;
}

bool RangeTable::has_room(RangeInFlight& range) {
  const std::lock_guard lock(mutex_);
  return make_room(range);
}

bool RangeTable::must_yield(const RangeInFlight& range) const {
  const std::lock_guard lock(mutex_);
  if (range.bytes || transfers_ < connections_) return false;
  const auto can_start = [&](const RangeInFlight& other) {
    return other.state == RangeState::idle && may_start(other);
  };
  return (first_ < in_order_ && can_start(ranges_[first_])) ||
         std::any_of(ranges_.begin() + static_cast<std::ptrdiff_t>(in_order_), ranges_.end(), can_start);
}

void RangeTable::found_at(RangedFile& file, const std::optional<Url>& direct) {
  const std::lock_guard lock(mutex_);
  file.direct = direct;
}

void RangeTable::retry_later(RangeInFlight& range, const Outcome& outcome) {
  std::string said;
  {
    const std::lock_guard lock(mutex_);
    range.not_before = Clock::now() + range.retries.next(outcome, said);
    if (outcome.curl == 0 && (outcome.status == 429 || (outcome.status == 503 && outcome.wait))) {
      if (Clock::now() < hold_until_) said.clear();  // another range has said so
      hold_until_ = std::max(hold_until_, range.not_before);
    }
    if (outcome.status >= 400) range.file.direct.reset();
  }
  if (!said.empty()) progress_.say(printable(said));
}

void RangeTable::leave(RangeInFlight& range, const void* transfer) {
  bool others_may_start = false;
  {
    const std::lock_guard lock(mutex_);
    --range.file.transfers;
    --transfers_;
    if (range.file.whole == transfer) range.file.whole = nullptr;
    others_may_start = range.file.ignores_ranges;
    if (range.state == RangeState::running) give_back(range);
  }
  if (others_may_start) wake_();
}

void RangeTable::lose_connections(std::size_t n) {
  const std::lock_guard lock(mutex_);
  connections_ -= static_cast<int>(n);
}

bool RangeTable::ended() const {
  const std::lock_guard lock(mutex_);
  return ending_ || failure_;
}

void RangeTable::end() {
  {
    const std::lock_guard lock(mutex_);
    ending_ = true;
  }
  wake_();
}

void RangeTable::fail(std::exception_ptr failure) {
  {
    const std::lock_guard lock(mutex_);
    if (!failure_) failure_ = failure;
  }
  arrived_.notify_all();
  wake_();
}

}  // namespace planesmith::hub
