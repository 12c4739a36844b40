#include "hub/range_reader.h"

#include <fmt/format.h>
#include <string.h>

#include <algorithm>
#include <condition_variable>
#include <deque>
#include <exception>
#include <mutex>
#include <optional>
#include <thread>

#include "base/error.h"
#include "base/size.h"
#include "base/text.h"
#include "hub/exchange.h"
#include "hub/retry.h"

namespace planesmith::hub {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int kContentTries = 8;

struct Multi {
  std::unique_ptr<CURLM, decltype(&curl_multi_cleanup)> handle{curl_multi_init(), &curl_multi_cleanup};
};

// A file, and what was learnt about it.
struct File {
  RemoteSource source;
  std::optional<Url> direct{};  // where the last redirect led: a signed URL that is good for a while
  bool ignores_ranges = false;
  int transfers = 0;  // running
};

enum class State { idle, running, done, released };

struct Range {
  RemoteRange want;
  Retries retries;
  State state = State::idle;
  Clock::time_point not_before{};
  std::unique_ptr<std::uint8_t[]> bytes{};
  std::uint64_t received = 0;
  bool fresh = false;  // over a new connection, and not from where the file was found before
};

}  // namespace

// The thread that all transfers run on, and what it shares with those who wait.
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
    Range& range = ranges_.at(r);
    arrived_.wait(lock, [&] { return failure_ || range.received >= size; });
    if (failure_) std::rethrow_exception(failure_);
    return {range.bytes.get(), static_cast<std::size_t>(size)};
  }

  void release(std::size_t r) {
    {
      const std::lock_guard lock(mutex_);
      Range& range = ranges_.at(r);
      if (range.state == State::released) return;
      if (range.state != State::done) throw Error("a range was released before it was whole");
      range.state = State::released;
      range.bytes.reset();
      held_ -= range.want.size;
      while (first_ < in_order_ && ranges_[first_].state == State::released) ++first_;
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
    ranges_.push_back({.want = want, .retries = Retries(files_.at(want.file).source.name, kContentTries)});
  }

  void run();
  void start_transfers();
  bool may_start(const Range& range) const;
  bool make_room(Range& range);
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
  std::vector<File> files_;
  std::vector<std::unique_ptr<Transfer>> transfers_;
  std::vector<std::size_t> broken_;  // ranges to be started again
  std::size_t next_ = 0;             // all ranges before were started at least once
  Clock::time_point hold_until_{};   // rate limit: nothing is asked for before

  mutable std::mutex mutex_;  // guards all below; the bytes of a range may be written without it
  std::condition_variable arrived_;
  std::deque<Range> ranges_;       // those given, then extra ones
  std::size_t in_order_ = 0;       // how many were given
  std::size_t first_ = 0;          // the first that is not released
  std::deque<std::size_t> extra_;  // to be fetched before all others
  std::uint64_t held_ = 0, received_ = 0;
  std::exception_ptr failure_;
  bool ending_ = false;

  std::thread thread_;
};

void RangeReader::Worker::run() {
  constexpr int kPollMs = 100;  // a stop, and the end of a wait, are noticed within this time
  try {
    for (;;) {
      {
        const std::lock_guard lock(mutex_);
        if (ending_) break;
        start_transfers();
      }
      for (const auto& transfer : transfers_)
        if (transfer->paused) {
          transfer->paused = false;
          curl_easy_pause(transfer->exchange.handle(), CURLPAUSE_CONT);  // offers at once what was held back
        }
      int running = 0;
      curl_multi_perform(multi_.handle.get(), &running);
      int left = 0;
      while (CURLMsg* const message = curl_multi_info_read(multi_.handle.get(), &left)) {
        if (message->msg != CURLMSG_DONE) continue;
        const CURLcode code = message->data.result;
        Transfer* transfer = nullptr;
        curl_easy_getinfo(message->easy_handle, CURLINFO_PRIVATE, &transfer);
        const std::lock_guard lock(mutex_);
        finish(*transfer, code);
      }
      context_.check_stop();
      curl_multi_poll(multi_.handle.get(), nullptr, 0, kPollMs, nullptr);
    }
  } catch (...) {
    const std::lock_guard lock(mutex_);
    failure_ = std::current_exception();
  }
  for (const auto& transfer : transfers_)
    curl_multi_remove_handle(multi_.handle.get(), transfer->exchange.handle());
  transfers_.clear();
  arrived_.notify_all();
}

bool RangeReader::Worker::may_start(const Range& range) const {
  const File& file = files_[range.want.file];
  return Clock::now() >= range.not_before && !(file.ignores_ranges && file.transfers > 0);
}

// Memory for a range: where there is none left only the first one that is waited for gets it.
bool RangeReader::Worker::make_room(Range& range) {
  if (range.bytes) return true;
  const bool first = first_ < in_order_ && &range == &ranges_[first_];
  const bool is_extra = range.fresh;
  if (held_ != 0 && held_ + range.want.size > options_.memory && !first && !is_extra) return false;
  range.bytes = std::make_unique_for_overwrite<std::uint8_t[]>(range.want.size);
  held_ += range.want.size;
  return true;
}

void RangeReader::Worker::start_transfers() {
  if (Clock::now() < hold_until_) return;
  const auto full = [&] { return transfers_.size() >= static_cast<std::size_t>(options_.connections); };
  while (!extra_.empty() && !full()) {
    const std::size_t r = extra_.front();
    extra_.pop_front();
    make_room(ranges_[r]);
    start(r);
  }
  for (std::size_t i = 0; i < broken_.size() && !full();) {
    Range& range = ranges_[broken_[i]];
    if (range.state != State::idle) {  // a transfer of the whole file came by
      broken_.erase(broken_.begin() + static_cast<std::ptrdiff_t>(i));
    } else if (may_start(range) && make_room(range)) {
      const std::size_t r = broken_[i];
      broken_.erase(broken_.begin() + static_cast<std::ptrdiff_t>(i));
      start(r);
    } else {
      ++i;
    }
  }
  // Files that ignore ranges and are being read are passed over; all else goes in order.
  bool in_order = true;
  for (std::size_t r = next_; r < in_order_ && !full(); ++r) {
    Range& range = ranges_[r];
    if (range.state == State::idle && may_start(range)) {
      if (!make_room(range)) break;
      start(r);
    } else if (range.state == State::idle) {
      in_order = false;
    }
    if (in_order) next_ = r + 1;
  }
}

void RangeReader::Worker::start(std::size_t r) {
  Range& range = ranges_[r];
  File& file = files_[range.want.file];
  if (range.fresh) file.direct.reset();
  range.state = State::running;
  ++file.transfers;
  transfers_.push_back(std::make_unique<Transfer>(Transfer{.range = r}));
  Transfer& transfer = *transfers_.back();
  transfer.from_direct = file.direct.has_value();
  ask(transfer, file.direct.value_or(file.source.url));
}

void RangeReader::Worker::ask(Transfer& transfer, const Url& url) {
  const Range& range = ranges_[transfer.range];
  transfer.position = range.want.offset + range.received;
  transfer.begun = transfer.serial = transfer.finished = false;
  transfer.exchange.prepare(
      url, token_, ByteRange{transfer.position, range.want.offset + range.want.size},
      [this, &transfer](ConstBytes bytes) -> std::size_t {
        try {
          return take(transfer, bytes);
        } catch (...) {
          transfer.failure = std::current_exception();
          return 0;
        }
      },
      range.fresh);
  curl_easy_setopt(transfer.exchange.handle(), CURLOPT_PRIVATE, static_cast<void*>(&transfer));
  curl_multi_add_handle(multi_.handle.get(), transfer.exchange.handle());
}

// Looks at the head of a response with content.
void RangeReader::Worker::begin_body(Transfer& transfer) {
  transfer.begun = true;
  File& file = files_[ranges_[transfer.range].want.file];
  const auto require_size = [&](std::optional<std::uint64_t> size) {
    if (size && *size != file.source.size)
      throw Error(
          ErrorCode::difference, file.source.name,
          fmt::format("has {} bytes now, {} are listed; it was replaced meanwhile, or the mirror is old",
                      *size, file.source.size));
  };
  const int status = transfer.exchange.status();
  if (status == 206) {
    std::optional<std::uint64_t> size;
    const auto got = transfer.exchange.content_range(size);
    require_size(size);
    if (!got || got->begin != transfer.position)
      throw Error(file.source.name, "the server sends another range than it was asked for");
    return;
  }
  curl_off_t length = -1;
  curl_easy_getinfo(transfer.exchange.handle(), CURLINFO_CONTENT_LENGTH_DOWNLOAD_T, &length);
  if (length >= 0) require_size(static_cast<std::uint64_t>(length));
  transfer.position = 0;
  const Range& range = ranges_[transfer.range];
  if (range.want.offset == 0 && range.want.size == file.source.size && range.received == 0) return;
  if (!file.ignores_ranges)
    context_.progress.say(printable(file.source.name + ": the server ignores ranges; one connection reads "
                                                       "the file from its front"));
  file.ignores_ranges = transfer.serial = true;
  for (const auto& other : transfers_)
    if (other.get() != &transfer && ranges_[other->range].want.file == range.want.file && !other->finished) {
      other->finished = other->abandoned = true;
      ranges_[other->range].state = State::idle;
      broken_.push_back(other->range);
    }
}

// The range of the same file that comes next and is not here yet.
std::optional<std::size_t> RangeReader::Worker::following(std::size_t r) const {
  for (std::size_t next = r + 1; next < in_order_ && ranges_[next].want.file == ranges_[r].want.file; ++next)
    if (ranges_[next].state == State::idle) return next;
  return {};
}

// Whether there is room for the next `size` bytes of a file that comes whole.
bool RangeReader::Worker::has_room(const Transfer& transfer, std::uint64_t size) {
  for (std::optional<std::size_t> r = transfer.range; r && ranges_[*r].want.offset < transfer.position + size;
       r = following(*r))
    if (!make_room(ranges_[*r])) return false;
  return true;
}

std::size_t RangeReader::Worker::take(Transfer& transfer, ConstBytes bytes) {
  const std::size_t all = bytes.size();
  const int status = transfer.exchange.status();
  if (status != 200 && status != 206) return all;  // words of an error or of a redirect
  if (transfer.finished) return 0;
  std::unique_lock lock(mutex_);
  if (!transfer.begun) begin_body(transfer);
  if (transfer.serial && !has_room(transfer, all)) {
    transfer.paused = true;
    return CURL_WRITEFUNC_PAUSE;
  }
  while (!bytes.empty()) {
    Range& range = ranges_[transfer.range];
    const std::uint64_t wanted = range.want.offset + range.received;
    if (transfer.position < wanted) {  // comes before, or is here already
      const std::size_t n = std::min<std::uint64_t>(bytes.size(), wanted - transfer.position);
      bytes = bytes.subspan(n);
      transfer.position += n;
      continue;
    }
    const std::size_t n = std::min<std::uint64_t>(bytes.size(), range.want.size - range.received);
    lock.unlock();
    memcpy(range.bytes.get() + range.received, bytes.data(), n);
    lock.lock();
    bytes = bytes.subspan(n);
    range.received += n;
    received_ += n;
    transfer.position += n;
    transfer.progress = true;
    arrived_.notify_all();
    if (range.received < range.want.size) continue;
    range.state = State::done;
    const std::optional<std::size_t> next = transfer.serial ? following(transfer.range) : std::nullopt;
    if (!next) {
      transfer.finished = true;
      return bytes.empty() ? all : 0;
    }
    transfer.range = *next;
    ranges_[*next].state = State::running;
  }
  return all;
}

void RangeReader::Worker::end(Transfer& transfer) {
  --files_[ranges_[transfer.range].want.file].transfers;
  const auto at = std::find_if(transfers_.begin(), transfers_.end(),
                               [&](const auto& other) { return other.get() == &transfer; });
  transfers_.erase(at);
}

void RangeReader::Worker::finish(Transfer& transfer, CURLcode code) {
  curl_multi_remove_handle(multi_.handle.get(), transfer.exchange.handle());
  if (transfer.failure) std::rethrow_exception(transfer.failure);
  const std::size_t r = transfer.range;
  Range& range = ranges_[r];
  File& file = files_[range.want.file];
  if (code == CURLE_OK && !transfer.finished) {
    if (const std::optional<Url> next = transfer.exchange.redirect()) {
      if (++transfer.hops > kMostRedirects) throw Error(file.source.name, "the server redirects without end");
      file.direct = *next;
      return ask(transfer, *next);
    }
  }
  if (transfer.abandoned || transfer.finished) return end(transfer);
  const int status = transfer.exchange.status();
  range.state = State::idle;
  broken_.push_back(r);
  if (code == CURLE_OK && transfer.from_direct && transfer.hops == 0 && status >= 400 && status < 500 &&
      status != 429) {  // a signed URL has expired: the file is asked for again by its name
    file.direct.reset();
    return end(transfer);
  }
  Outcome outcome = transfer.exchange.outcome(code, transfer.progress);
  if (code == CURLE_OK && (status == 200 || status == 206)) {
    outcome.curl = CURLE_PARTIAL_FILE;
    outcome.detail = "the response ended early";
  }
  std::string said;
  const auto wait = range.retries.next(outcome, said);
  range.not_before = Clock::now() + wait;
  if (outcome.curl == CURLE_OK && (status == 429 || (status == 503 && outcome.wait))) {
    const bool known = Clock::now() < hold_until_;
    hold_until_ = std::max(hold_until_, range.not_before);
    if (known) said.clear();  // one of the others has said so
  }
  if (status >= 400) file.direct.reset();
  if (!said.empty()) context_.progress.say(printable(said));
  end(transfer);
}

RangeReader::RangeReader(std::vector<RemoteSource> files, std::vector<RemoteRange> ranges, const Token& token,
                         const RangeOptions& options, const Context& context)
    : worker_(std::make_unique<Worker>(std::move(files), ranges, token, options, context)) {}
RangeReader::~RangeReader() = default;

ConstBytes RangeReader::wait(std::size_t range, std::uint64_t size) {
  return worker_->wait(range, size);
}

void RangeReader::release(std::size_t range) {
  worker_->release(range);
}

std::vector<std::uint8_t> RangeReader::again(const RemoteRange& range) {
  return worker_->again(range);
}

std::uint64_t RangeReader::received() const {
  return worker_->received();
}

void append_ranges(std::vector<RemoteRange>& ranges, std::size_t file, std::uint64_t begin, std::uint64_t end,
                   std::uint64_t size) {
  for (std::uint64_t at = begin; at < end; at += size)
    ranges.push_back({.file = file, .offset = at, .size = std::min(size, end - at)});
}

std::uint64_t range_size(std::uint64_t total, const RangeOptions& options) {
  const auto connections = static_cast<std::uint64_t>(std::max(options.connections, 1));
  const std::uint64_t most = std::clamp(options.memory / (2 * connections), 64 * kKiB, 64 * kMiB);
  return std::clamp(total / (4 * connections), std::min(kMiB, most), most);
}

}  // namespace planesmith::hub
