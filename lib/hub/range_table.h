// What the transfers of a RangeReader share: the files and what was learnt about them, the ranges, the order
// in which they are started, the memory they get, rate limits, and the failure that ends all.
#pragma once

#include <stdlib.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/context.h"
#include "base/file.h"
#include "hub/range_reader.h"
#include "hub/retry.h"
#include "hub/url.h"

namespace planesmith::hub {

// A file, and what was learnt about it.
struct RangedFile {
  const RemoteSource source;
  // The table's mutex guards what follows.
  std::optional<Url> direct{};  // where the last redirect led: a signed URL that is good for a while
  bool ignores_ranges = false;
  int transfers = 0;            // running
  const void* whole = nullptr;  // the transfer that reads the file from its front, which ends all others
};

enum class RangeState { idle, running, done, released };

struct RangeInFlight {
  RangeInFlight(std::size_t at, const RemoteRange& range, RangedFile& of, bool again);
  std::uint64_t position() const { return want.offset + received.load(); }  // in the file, of the next byte

  const std::size_t index;
  const RemoteRange want;
  RangedFile& file;
  const bool fresh;  // over a new connection, and not from where the file was found before
  // Written by the one transfer that the range has while it runs.
  std::unique_ptr<std::uint8_t[], decltype(&free)> bytes{nullptr, &free};
  std::atomic<std::uint64_t> received{0};
  // The table's mutex guards what follows; `awaited` is read without it.
  std::atomic<std::uint64_t> awaited{UINT64_MAX};  // the fewest bytes of it that are waited for
  Retries retries;
  RangeState state = RangeState::idle;
  std::chrono::steady_clock::time_point not_before{};
};

// All member functions may be called from any thread. One mutex guards the table; bytes arrive without it.
class RangeTable {
 public:
  // wake: has every thread that runs transfers look at the table again.
  RangeTable(std::vector<RemoteSource> files, const std::vector<RemoteRange>& ranges,
             const RangeOptions& options, Progress& progress, std::function<void()> wake);

  // For those who want the bytes; as RangeReader's.
  std::size_t wait_any(std::span<const RangeFront> fronts);
  ConstBytes front(const RangeFront& front) const;
  void release(std::size_t range);
  std::size_t add_again(const RemoteRange& want);  // the number of a range that goes before all others

  // For the threads that run transfers.
  struct Start {
    RangeInFlight& range;
    Url url;
    bool direct;  // where an earlier redirect led
  };
  std::optional<Start> start_next();  // a range that may start now; it and its memory are the caller's
  // n more bytes of the range are in its memory.
  void arrived(RangeInFlight& range, std::uint64_t n);
  // The last n bytes are. Where its transfer reads on: the range of the file that the next bytes belong to,
  // now the caller's, too.
  RangeInFlight* complete(RangeInFlight& range, std::uint64_t n, bool reads_on);
  // The server ignores ranges, so this transfer reads the whole file.
  void read_whole(RangedFile& file, const void* transfer);
  // Whether another transfer brings the range, since it reads the whole file. Not one that is fetched again:
  // it was brought already.
  bool is_superseded(const RangeInFlight& range, const void* transfer) const;
  // The first range of the file that is not here, for the transfer that reads all of it and has this range;
  // null while other transfers of the file go on, which may have that one.
  RangeInFlight* take_over(RangeInFlight& range);
  bool has_room(RangeInFlight& range);  // memory for a range of a file that is read whole
  void found_at(RangedFile& file, const std::optional<Url>& direct);
  // What a range waits for after a transfer that failed. Errors: those of Retries.
  void retry_later(RangeInFlight& range, const Outcome& outcome);
  // A transfer has ended. What it has not completed is started again.
  void leave(RangeInFlight& range, const void* transfer);

  bool ended() const;  // by end() or a failure
  void end();
  void fail(std::exception_ptr failure);

 private:
  using Clock = std::chrono::steady_clock;
  void add(const RemoteRange& want, bool again);
  bool may_start(const RangeInFlight& range) const;
  bool make_room(RangeInFlight& range);
  RangeInFlight* find_next();
  void give_back(RangeInFlight& range);
  RangeInFlight* following(const RangeInFlight& range);

  const RangeOptions options_;
  Progress& progress_;
  const std::function<void()> wake_;
  std::vector<RangedFile> files_;

  mutable std::mutex mutex_;  // guards all below, and what of files and ranges says so
  std::condition_variable arrived_;
  std::deque<RangeInFlight> ranges_;  // those given, then those that are fetched again; they stay in place
  const std::size_t in_order_;        // how many were given
  std::size_t first_ = 0;             // the first that is not released
  std::size_t next_ = 0;              // all before were started at least once
  std::vector<std::size_t> broken_;   // to be started again
  std::deque<std::size_t> extra_;     // to be started before all others
  std::uint64_t held_ = 0;            // bytes of memory that ranges have
  Clock::time_point hold_until_{};    // rate limit: nothing is asked for before
  std::exception_ptr failure_;
  bool ending_ = false;
};

}  // namespace planesmith::hub
