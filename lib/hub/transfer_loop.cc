#include "hub/transfer_loop.h"

#include <fmt/format.h>
#include <string.h>

#include <algorithm>
#include <new>

#include "base/error.h"

namespace planesmith::hub {

TransferLoop::TransferLoop(RangeTable& table, std::size_t connections, const Token& token,
                           const Context& context)
    : table_(table),
      connections_(connections),
      token_(token),
      context_(context),
      multi_(curl_multi_init(), &curl_multi_cleanup) {
  if (!multi_) throw std::bad_alloc();
}

void TransferLoop::wake() {
  curl_multi_wakeup(multi_.get());
}

void TransferLoop::run() {
  constexpr int kPollMs = 100;  // notices a stop or the end of a wait within this time
  try {
    while (!table_.ended()) {
      make_way();
      start_transfers();
      resume_paused();
      const bool some_ended = perform();
      context_.check_stop();
      curl_multi_poll(multi_.get(), nullptr, 0, some_ended ? 0 : kPollMs, nullptr);
    }
  } catch (...) {
    table_.fail(std::current_exception());
  }
  for (const auto& transfer : transfers_) curl_multi_remove_handle(multi_.get(), transfer->exchange.handle());
  transfers_.clear();
}

// Ends transfers whose bytes another one fetches, or whose connection another range needs.
void TransferLoop::make_way() {
  for (std::size_t i = transfers_.size(); i-- > 0;) {
    Transfer& transfer = *transfers_[i];
    if (table_.is_superseded(*transfer.range, &transfer) ||
        (transfer.paused && table_.must_yield(*transfer.range))) {
      curl_multi_remove_handle(multi_.get(), transfer.exchange.handle());
      remove(transfer);
    }
  }
}

void TransferLoop::start_transfers() {
  while (transfers_.size() < connections_) {
    const auto start = table_.start_next();
    if (!start) return;
    transfers_.push_back(
        std::make_unique<Transfer>(Transfer{.range = &start->range, .from_direct = start->direct}));
    ask(*transfers_.back(), start->url);
  }
}

void TransferLoop::resume_paused() {
  for (const auto& transfer : transfers_)
    if (transfer->paused) {
      transfer->paused = false;
      curl_easy_pause(transfer->exchange.handle(), CURLPAUSE_CONT);  // passes the held bytes at once
    }
}

// Whether a transfer has ended, so that another one can start.
bool TransferLoop::perform() {
  int running = 0, left = 0;
  curl_multi_perform(multi_.get(), &running);
  bool some_ended = false;
  while (CURLMsg* const message = curl_multi_info_read(multi_.get(), &left)) {
    if (message->msg != CURLMSG_DONE) continue;
    const CURLcode code = message->data.result;
    Transfer* transfer = nullptr;
    curl_easy_getinfo(message->easy_handle, CURLINFO_PRIVATE, &transfer);
    curl_multi_remove_handle(multi_.get(), transfer->exchange.handle());
    if (goes_on(*transfer, code)) continue;
    if (!transfer->finished) after_failure(*transfer, code);
    remove(*transfer);
    some_ended = true;
  }
  return some_ended;
}

void TransferLoop::ask(Transfer& transfer, const Url& url) {
  const RangeInFlight& range = *transfer.range;
  transfer.position = range.position();
  transfer.begun = transfer.serial = transfer.alone = transfer.finished = false;
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
  curl_multi_add_handle(multi_.get(), transfer.exchange.handle());
}

// Checks the header of a response with content.
void TransferLoop::begin_body(Transfer& transfer) {
  transfer.begun = true;
  const RangeInFlight& range = *transfer.range;
  const RemoteSource& source = range.file.source;
  const auto require_size = [&](std::optional<std::uint64_t> size) {
    if (size && *size != source.size)
      throw Error(
          ErrorCode::difference, source.name,
          fmt::format("has {} bytes now, {} are listed; it was replaced meanwhile, or the mirror is old",
                      *size, source.size));
  };
  if (transfer.exchange.status() == 206) {
    std::optional<std::uint64_t> size;
    const auto got = transfer.exchange.content_range(size);
    require_size(size);
    if (!got || got->begin != transfer.position)
      throw Error(source.name, "the server sends another range than it was asked for");
    return;
  }
  curl_off_t length = -1;
  curl_easy_getinfo(transfer.exchange.handle(), CURLINFO_CONTENT_LENGTH_DOWNLOAD_T, &length);
  if (length >= 0) require_size(static_cast<std::uint64_t>(length));
  transfer.position = 0;
  const bool is_all = range.want.offset == 0 && range.want.size == source.size && range.received == 0;
  if (is_all || range.fresh) return;
  transfer.serial = true;
  table_.read_whole(range.file, &transfer);
}

std::size_t TransferLoop::hold(Transfer& transfer) {
  transfer.paused = true;
  return CURL_WRITEFUNC_PAUSE;
}

// libcurl passes at most 16 KiB at a time, for any buffer size, so this avoids the table's mutex.
std::size_t TransferLoop::take(Transfer& transfer, ConstBytes bytes) {
  const std::size_t all = bytes.size();
  if (!transfer.begun) {
    const int status = transfer.exchange.status();
    if (status != 200 && status != 206) return all;  // the body of an error or redirect
    begin_body(transfer);
  }
  if (transfer.finished) return 0;
  if (transfer.serial && !transfer.alone) {
    RangeInFlight* const first = table_.take_over(*transfer.range);
    if (first == nullptr) return hold(transfer);
    transfer.range = first;
    transfer.alone = true;
  }
  std::uint64_t at = transfer.position;  // held bytes come again from this position
  while (!bytes.empty()) {
    RangeInFlight& range = *transfer.range;
    const std::uint64_t wanted = range.position();
    if (at < wanted) {  // before the range, or received already
      const std::size_t n = std::min<std::uint64_t>(bytes.size(), wanted - at);
      bytes = bytes.subspan(n);
      at += n;
      continue;
    }
    if (transfer.serial && !table_.has_room(range)) return hold(transfer);
    const std::uint64_t received = wanted - range.want.offset;
    const std::size_t n = std::min<std::uint64_t>(bytes.size(), range.want.size - received);
    memcpy(range.bytes.get() + received, bytes.data(), n);
    bytes = bytes.subspan(n);
    at += n;
    transfer.progress = true;
    if (received + n < range.want.size) {
      table_.arrived(range, n);
      continue;
    }
    RangeInFlight* const next = table_.complete(range, n, transfer.serial);
    if (next == nullptr) {
      transfer.finished = true;
      return bytes.empty() ? all : 0;
    }
    transfer.range = next;
  }
  transfer.position = at;
  return all;
}

// Whether the transfer continues, because of a redirect.
bool TransferLoop::goes_on(Transfer& transfer, CURLcode code) {
  if (transfer.failure) std::rethrow_exception(transfer.failure);
  if (code != CURLE_OK || transfer.finished) return false;
  const std::optional<Url> next = transfer.exchange.redirect();
  if (!next) return false;
  RangedFile& file = transfer.range->file;
  if (++transfer.hops > kMostRedirects) throw Error(file.source.name, "the server redirects without end");
  table_.found_at(file, next);
  ask(transfer, *next);
  return true;
}

void TransferLoop::after_failure(const Transfer& transfer, CURLcode code) {
  const int status = transfer.exchange.status();
  // A signed URL has expired: ask again at the file's own URL.
  if (code == CURLE_OK && transfer.from_direct && transfer.hops == 0 && status >= 400 && status < 500 &&
      status != 429)
    return table_.found_at(transfer.range->file, std::nullopt);
  Outcome outcome = transfer.exchange.outcome(code, transfer.progress);
  if (code == CURLE_OK && (status == 200 || status == 206)) {
    outcome.curl = CURLE_PARTIAL_FILE;
    outcome.detail = "the response ended early";
  }
  table_.retry_later(*transfer.range, outcome);
}

void TransferLoop::remove(Transfer& transfer) {
  table_.leave(*transfer.range, &transfer);
  std::erase_if(transfers_, [&](const auto& other) { return other.get() == &transfer; });
}

}  // namespace planesmith::hub
