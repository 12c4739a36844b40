#include "hub/range_worker.h"

#include <fmt/format.h>
#include <string.h>
#include <sys/mman.h>

#include <algorithm>

#include "base/error.h"
#include "base/size.h"
#include "base/text.h"

namespace planesmith::hub {

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

bool RangeReader::Worker::may_start(const RangeInFlight& range) const {
  const RangedFile& file = files_[range.want.file];
  return Clock::now() >= range.not_before && !(file.ignores_ranges && file.transfers > 0);
}

// Memory for a range: where there is none left only the first one that is waited for gets it.
bool RangeReader::Worker::make_room(RangeInFlight& range) {
  if (range.bytes) return true;
  const bool first = first_ < in_order_ && &range == &ranges_[first_];
  const bool is_extra = range.fresh;
  if (held_ != 0 && held_ + range.want.size > options_.memory && !first && !is_extra) return false;
  // In huge pages where the size allows: a page fault for each 4 KiB is half of what a transfer costs.
  constexpr std::size_t kHuge = 2 * kMiB;
  const std::size_t alignment = range.want.size >= kHuge ? kHuge : 4 * kKiB;
  void* memory = nullptr;
  if (posix_memalign(&memory, alignment, range.want.size) != 0) throw std::bad_alloc();
  if (alignment == kHuge) madvise(memory, range.want.size, MADV_HUGEPAGE);
  range.bytes.reset(static_cast<std::uint8_t*>(memory));
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
    RangeInFlight& range = ranges_[broken_[i]];
    if (range.state != RangeState::idle) {  // a transfer of the whole file came by
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
    RangeInFlight& range = ranges_[r];
    if (range.state == RangeState::idle && may_start(range)) {
      if (!make_room(range)) break;
      start(r);
    } else if (range.state == RangeState::idle) {
      in_order = false;
    }
    if (in_order) next_ = r + 1;
  }
}

void RangeReader::Worker::start(std::size_t r) {
  RangeInFlight& range = ranges_[r];
  RangedFile& file = files_[range.want.file];
  if (range.fresh) file.direct.reset();
  range.state = RangeState::running;
  ++file.transfers;
  transfers_.push_back(std::make_unique<Transfer>(Transfer{.range = r}));
  Transfer& transfer = *transfers_.back();
  transfer.from_direct = file.direct.has_value();
  ask(transfer, file.direct.value_or(file.source.url));
}

void RangeReader::Worker::ask(Transfer& transfer, const Url& url) {
  const RangeInFlight& range = ranges_[transfer.range];
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
  RangedFile& file = files_[ranges_[transfer.range].want.file];
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
  const RangeInFlight& range = ranges_[transfer.range];
  if (range.want.offset == 0 && range.want.size == file.source.size && range.received == 0) return;
  if (!file.ignores_ranges)
    context_.progress.say(printable(file.source.name + ": the server ignores ranges; one connection reads "
                                                       "the file from its front"));
  file.ignores_ranges = transfer.serial = true;
  for (const auto& other : transfers_)
    if (other.get() != &transfer && ranges_[other->range].want.file == range.want.file && !other->finished) {
      other->finished = other->abandoned = true;
      ranges_[other->range].state = RangeState::idle;
      broken_.push_back(other->range);
    }
}

// The range of the same file that comes next and is not here yet.
std::optional<std::size_t> RangeReader::Worker::following(std::size_t r) const {
  for (std::size_t next = r + 1; next < in_order_ && ranges_[next].want.file == ranges_[r].want.file; ++next)
    if (ranges_[next].state == RangeState::idle) return next;
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
    RangeInFlight& range = ranges_[transfer.range];
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
    if (range.received >= range.awaited) {  // those who want more say so again
      range.awaited = UINT64_MAX;
      arrived_.notify_all();
    }
    if (range.received < range.want.size) continue;
    range.state = RangeState::done;
    const std::optional<std::size_t> next = transfer.serial ? following(transfer.range) : std::nullopt;
    if (!next) {
      transfer.finished = true;
      return bytes.empty() ? all : 0;
    }
    transfer.range = *next;
    ranges_[*next].state = RangeState::running;
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
  RangeInFlight& range = ranges_[r];
  RangedFile& file = files_[range.want.file];
  if (code == CURLE_OK && !transfer.finished) {
    if (const std::optional<Url> next = transfer.exchange.redirect()) {
      if (++transfer.hops > kMostRedirects) throw Error(file.source.name, "the server redirects without end");
      file.direct = *next;
      return ask(transfer, *next);
    }
  }
  if (transfer.abandoned || transfer.finished) return end(transfer);
  const int status = transfer.exchange.status();
  range.state = RangeState::idle;
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

}  // namespace planesmith::hub
