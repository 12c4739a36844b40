// The state that the transfers of a RangeReader share: the files and what is known about them, the ranges,
// their order and memory, rate limits, and the failure that ends all transfers.
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

// A file, and what earlier responses told about it.
struct RangedFile {
  const RemoteSource source;
  // The table's mutex guards what follows.
  std::optional<Url> direct{};  // target of the last redirect: a signed URL that is valid for a while
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
  const bool fresh;  // to be fetched over a new connection and from the file's own URL
  // Written by the range's only transfer while it runs.
  std::unique_ptr<std::uint8_t[], decltype(&free)> bytes{nullptr, &free};
  std::atomic<std::uint64_t> received{0};
  // The table's mutex guards what follows; `awaited` is read without it.
  std::atomic<std::uint64_t> awaited{UINT64_MAX};  // the lowest size that a thread waits for
  Retries retries;
  RangeState state = RangeState::idle;
  std::chrono::steady_clock::time_point not_before{};
};

// All member functions may be called from any thread. One mutex guards the table, but not the bytes.
class RangeTable {
 public:
  // wake: makes every thread that runs transfers look at the table again.
  RangeTable(std::vector<RemoteSource> files, const std::vector<RemoteRange>& ranges,
             const RangeOptions& options, Progress& progress, std::function<void()> wake);

  // For the threads that need the bytes; as in RangeReader.
  std::size_t wait_any(std::span<const RangeFront> fronts);
  ConstBytes front(const RangeFront& front) const;
  void release(std::size_t range);
  std::size_t add_again(const RemoteRange& want);  // its number; it is started before all others

  // For the threads that run transfers.
  struct Start {
    RangeInFlight& range;
    Url url;
    bool direct;  // url is the target of an earlier redirect
  };
  std::optional<Start> start_next();  // a range that may start now; the caller then owns it
  // To be called when n more bytes of the range are in its memory.
  void arrived(RangeInFlight& range, std::uint64_t n);
  // The same for the last n bytes. If its transfer reads on, returns the file's range of the next bytes,
  // which the caller then owns too; else null.
  RangeInFlight* complete(RangeInFlight& range, std::uint64_t n, bool reads_on);
  // To be called when the server ignores ranges, so that this transfer reads the whole file.
  void read_whole(RangedFile& file, const void* transfer);
  // Whether another transfer fetches the range because it reads the whole file. Never for a range that is
  // fetched again, which that transfer has passed already.
  bool is_superseded(const RangeInFlight& range, const void* transfer) const;
  // The file's first missing range, for the transfer that reads the whole file and owns `range`; null while
  // other transfers of the file run, which may own it.
  RangeInFlight* take_over(RangeInFlight& range);
  bool has_room(RangeInFlight& range);  // memory for a range of a file that is read whole
  // Whether the transfer of a range without memory must end: it may wait for the release of a range that can
  // start only on its connection.
  bool must_yield(const RangeInFlight& range) const;
  void found_at(RangedFile& file, const std::optional<Url>& direct);
  // Delays the range after a failed transfer. Errors: those of Retries.
  void retry_later(RangeInFlight& range, const Outcome& outcome);
  // To be called when a transfer has ended; a range that is incomplete is started again.
  void leave(RangeInFlight& range, const void* transfer);

  void lose_connections(std::size_t n);  // no thread runs them
  bool ended() const;                    // by end() or a failure
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

  mutable std::mutex mutex_;  // guards all below, and the members of files and ranges that say so
  std::condition_variable arrived_;
  std::deque<RangeInFlight> ranges_;  // the given ones, then those fetched again; addresses are stable
  const std::size_t in_order_;        // number of the given ones
  std::size_t first_ = 0;             // the first that is not released
  std::size_t next_ = 0;              // all before it were started at least once
  std::vector<std::size_t> broken_;   // to be started again
  std::deque<std::size_t> extra_;     // to be started before all others
  int connections_;                   // for which there are threads
  int transfers_ = 0;                 // running
  std::uint64_t held_ = 0;            // bytes of memory that ranges have
  Clock::time_point hold_until_{};    // rate limit: no request before this time
  std::exception_ptr failure_;
  bool ending_ = false;
};

}  // namespace planesmith::hub
