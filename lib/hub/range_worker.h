// The inside of RangeReader: the thread that all transfers run on, and what it shares with those who wait.
#pragma once

#include <stdlib.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <exception>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "hub/exchange.h"
#include "hub/range_reader.h"
#include "hub/retry.h"

namespace planesmith::hub {

struct Multi {
  std::unique_ptr<CURLM, decltype(&curl_multi_cleanup)> handle{curl_multi_init(), &curl_multi_cleanup};
};

// A file, and what was learnt about it.
struct RangedFile {
  RemoteSource source;
  std::optional<Url> direct{};  // where the last redirect led: a signed URL that is good for a while
  bool ignores_ranges = false;
  int transfers = 0;  // running
};

enum class RangeState { idle, running, done, released };

struct RangeInFlight {
  RemoteRange want;
  Retries retries;
  RangeState state = RangeState::idle;
  std::chrono::steady_clock::time_point not_before{};
  std::unique_ptr<std::uint8_t[], decltype(&free)> bytes{nullptr, &free};
  std::uint64_t received = 0;
  std::uint64_t awaited = UINT64_MAX;  // the fewest bytes of it that are waited for
  bool fresh = false;                  // over a new connection, and not from where the file was found before
};

class RangeReader::Worker {
 public:
  Worker(std::vector<RemoteSource> files, const std::vector<RemoteRange>& ranges, const Token& token,
         const RangeOptions& options, const Context& context)
      : token_(token), options_(options), context_(context) {
    if (!multi_.handle) throw std::bad_alloc();
    for (RemoteSource& file : files) files_.push_back({.source = std::move(file)});
    for (const RemoteRange& range : ranges) add(range);
    in_order_ = ranges_.size();
    thread_ = std::thread([this] { run(); });
  }

  ~Worker() {
    {
      const std::lock_guard lock(mutex_);
      ending_ = true;
    }
    curl_multi_wakeup(multi_.handle.get());
    thread_.join();
  }

  ConstBytes wait(std::size_t r, std::uint64_t size) {
    std::unique_lock lock(mutex_);
    RangeInFlight& range = ranges_.at(r);
    arrived_.wait(lock, [&] {
      if (failure_ || range.received >= size) return true;
      range.awaited = std::min(range.awaited, size);
      return false;
    });
    if (failure_) std::rethrow_exception(failure_);
    return {range.bytes.get(), static_cast<std::size_t>(size)};
  }

  void release(std::size_t r) {
    {
      const std::lock_guard lock(mutex_);
      RangeInFlight& range = ranges_.at(r);
      if (range.state == RangeState::released) return;
      if (range.state != RangeState::done) throw Error("a range was released before it was whole");
      range.state = RangeState::released;
      range.bytes.reset();
      held_ -= range.want.size;
      while (first_ < in_order_ && ranges_[first_].state == RangeState::released) ++first_;
    }
    curl_multi_wakeup(multi_.handle.get());
  }

  std::vector<std::uint8_t> again(const RemoteRange& want) {
    std::size_t r = 0;
    {
      const std::lock_guard lock(mutex_);
      if (failure_) std::rethrow_exception(failure_);
      r = ranges_.size();
      add(want);
      ranges_[r].fresh = true;
      extra_.push_back(r);
    }
    curl_multi_wakeup(multi_.handle.get());
    const ConstBytes bytes = wait(r, want.size);
    std::vector<std::uint8_t> copy(bytes.begin(), bytes.end());
    release(r);
    return copy;
  }

  std::uint64_t received() const {
    const std::lock_guard lock(mutex_);
    return received_;
  }

 private:
  using Clock = std::chrono::steady_clock;
  static constexpr int kTries = 8;  // for a range, without progress
  struct Transfer {
    std::size_t range;  // that the next bytes belong to
    Exchange exchange{};
    std::uint64_t position = 0;  // in the file, of the next byte
    int hops = 0;
    bool from_direct = false;  // began where an earlier redirect led
    bool begun = false;        // the head of the response was looked at
    bool serial = false;       // the whole file comes, from its first byte
    bool paused = false;
    bool progress = false;
    bool finished = false;   // has what it was for; what follows is not wanted
    bool abandoned = false;  // another transfer reads the whole file
    std::exception_ptr failure{};
  };

  void add(const RemoteRange& want) {
    ranges_.push_back({.want = want, .retries = Retries(files_.at(want.file).source.name, kTries)});
  }

  void run();
  void start_transfers();
  bool may_start(const RangeInFlight& range) const;
  bool make_room(RangeInFlight& range);
  void start(std::size_t r);
  void ask(Transfer& transfer, const Url& url);
  std::size_t take(Transfer& transfer, ConstBytes bytes);
  void begin_body(Transfer& transfer);
  bool has_room(const Transfer& transfer, std::uint64_t size);
  std::optional<std::size_t> following(std::size_t r) const;
  void finish(Transfer& transfer, CURLcode code);
  void end(Transfer& transfer);

  Multi multi_;
  const Token token_;
  const RangeOptions options_;
  const Context& context_;

  // Of the thread alone.
  std::vector<RangedFile> files_;
  std::vector<std::unique_ptr<Transfer>> transfers_;
  std::vector<std::size_t> broken_;  // ranges to be started again
  std::size_t next_ = 0;             // all ranges before were started at least once
  Clock::time_point hold_until_{};   // rate limit: nothing is asked for before

  mutable std::mutex mutex_;  // guards all below; the bytes of a range may be written without it
  std::condition_variable arrived_;
  std::deque<RangeInFlight> ranges_;  // those given, then extra ones
  std::size_t in_order_ = 0;          // how many were given
  std::size_t first_ = 0;             // the first that is not released
  std::deque<std::size_t> extra_;     // to be fetched before all others
  std::uint64_t held_ = 0, received_ = 0;
  std::exception_ptr failure_;
  bool ending_ = false;

  std::thread thread_;
};

}  // namespace planesmith::hub
