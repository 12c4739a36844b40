#include "hub/exchange.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <exception>
#include <new>
#include <thread>

#include "base/error.h"
#include "base/temporary_file.h"
#include "base/text.h"
#include "base/version.h"
#include "hub/certificates.h"

namespace planesmith::hub {
namespace {

constexpr std::size_t kMostHeaderBytes = 256 << 10;
constexpr int kDocumentTries = 5;
constexpr long kStallBytes = 1000, kStallSeconds = 20, kConnectSeconds = 20;

void initialize_once() {
  static const CURLcode done = curl_global_init(CURL_GLOBAL_DEFAULT);
  if (done != CURLE_OK) throw Error("libcurl cannot be initialized");
}

template <class... Value>
void set(CURL* handle, CURLoption option, Value... value) {
  if (const CURLcode code = curl_easy_setopt(handle, option, value...); code != CURLE_OK)
    throw Error(fmt::format("libcurl: {}", curl_easy_strerror(code)));
}

// The same rule for every build of libcurl, instead of the paths that were compiled in.
void set_certificates(CURL* handle) {
  static const Certificates certificates = find_certificates();
  if (!certificates.file.empty()) {
    set(handle, CURLOPT_CAINFO, certificates.file.c_str());
    set(handle, CURLOPT_PROXY_CAINFO, certificates.file.c_str());
  }
  if (!certificates.directory.empty()) {
    set(handle, CURLOPT_CAPATH, certificates.directory.c_str());
    set(handle, CURLOPT_PROXY_CAPATH, certificates.directory.c_str());
  }
}

// Parses a number at the start of text and removes it from there.
bool take_number(std::string_view& text, std::uint64_t& value) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc()) return false;
  text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  return true;
}

bool take_text(std::string_view& text, std::string_view expected) {
  if (!text.starts_with(expected)) return false;
  text.remove_prefix(expected.size());
  return true;
}

// RateLimit: "resolvers";r=0;t=57
std::optional<std::chrono::seconds> window_end(const std::string& rate_limit) {
  const std::size_t at = rate_limit.find(";t=");
  if (at == rate_limit.npos) return {};
  std::string_view rest = std::string_view(rate_limit).substr(at + 3);
  std::uint64_t value = 0;
  if (!take_number(rest, value) || value > 1u << 20) return {};
  return std::chrono::seconds(value);
}

int stop_asked(void* context, curl_off_t, curl_off_t, curl_off_t, curl_off_t) {
  const auto& stop = static_cast<const Context*>(context)->stop;
  return stop != nullptr && stop->requested() ? 1 : 0;
}

void pause(std::chrono::milliseconds time, const Context& context) {
  constexpr std::chrono::milliseconds kStep{100};
  for (; time.count() > 0; time -= kStep) {
    context.check_stop();
    std::this_thread::sleep_for(std::min(time, kStep));
  }
}

}  // namespace

Exchange::Exchange()
    : handle_((initialize_once(), curl_easy_init()), &curl_easy_cleanup),
      message_(std::make_unique<char[]>(CURL_ERROR_SIZE)) {
  if (!handle_) throw std::bad_alloc();
}

void Exchange::prepare(const Url& url, const Token& token, std::optional<ByteRange> range, Take take,
                       bool fresh) {
  CURL* const curl = handle_.get();
  curl_easy_reset(curl);
  url_ = url;
  take_ = std::move(take);
  header_bytes_ = 0;
  message_[0] = '\0';
  set(curl, CURLOPT_URL, url.text().c_str());
  set(curl, CURLOPT_PROTOCOLS_STR, "http,https");
  if (url.origin().starts_with("https:")) set_certificates(curl);
  // With HTTP/2 all ranges would share one connection, and its rate.
  set(curl, CURLOPT_HTTP_VERSION, static_cast<long>(CURL_HTTP_VERSION_1_1));
  set(curl, CURLOPT_FOLLOWLOCATION, 0L);  // by hand, so that the token goes only to its origin
  set(curl, CURLOPT_NOSIGNAL, 1L);
  set(curl, CURLOPT_NETRC, static_cast<long>(CURL_NETRC_IGNORED));
  set(curl, CURLOPT_USERAGENT, version().c_str());
  set(curl, CURLOPT_CONNECTTIMEOUT, kConnectSeconds);
  set(curl, CURLOPT_LOW_SPEED_LIMIT, kStallBytes);
  set(curl, CURLOPT_LOW_SPEED_TIME, kStallSeconds);
  // libcurl refuses this after a failed connection that left its buffer, whose size then stays.
  curl_easy_setopt(curl, CURLOPT_BUFFERSIZE, 512L << 10);
  set(curl, CURLOPT_ERRORBUFFER, message_.get());
  set(curl, CURLOPT_FRESH_CONNECT, fresh ? 1L : 0L);
  set(curl, CURLOPT_WRITEFUNCTION, &Exchange::write);
  set(curl, CURLOPT_WRITEDATA, static_cast<void*>(this));
  set(curl, CURLOPT_HEADERFUNCTION, &Exchange::count_header);
  set(curl, CURLOPT_HEADERDATA, static_cast<void*>(this));
  if (range) {
    const std::string text = fmt::format("{}-{}", range->begin, range->end - 1);
    set(curl, CURLOPT_RANGE, text.c_str());
  }
  authorized_ = token.is_for(url);
  headers_.reset(curl_slist_append(nullptr, "Accept-Encoding: identity"));
  if (authorized_ && !curl_slist_append(headers_.get(), token.header().c_str())) throw std::bad_alloc();
  if (!headers_) throw std::bad_alloc();
  set(curl, CURLOPT_HTTPHEADER, headers_.get());
}

std::size_t Exchange::write(char* data, std::size_t size, std::size_t count, void* self) {
  return static_cast<Exchange*>(self)->take_({reinterpret_cast<const std::uint8_t*>(data), size * count});
}

std::size_t Exchange::count_header(char*, std::size_t size, std::size_t count, void* self) {
  auto& seen = static_cast<Exchange*>(self)->header_bytes_;
  seen += size * count;
  return seen > kMostHeaderBytes ? 0 : size * count;
}

int Exchange::status() const {
  long status = 0;
  curl_easy_getinfo(handle_.get(), CURLINFO_RESPONSE_CODE, &status);
  return static_cast<int>(status);
}

std::string Exchange::header(const char* name) const {
  curl_header* found = nullptr;
  return curl_easy_header(handle_.get(), name, 0, CURLH_HEADER, -1, &found) == CURLHE_OK ? found->value : "";
}

std::optional<Url> Exchange::redirect() const {
  const int code = status();
  if (code != 301 && code != 302 && code != 303 && code != 307 && code != 308) return {};
  const std::string location = header("Location");
  if (location.empty()) throw Error(url_.shown(), "the server redirects without saying where to");
  return url_.resolve(location);
}

std::optional<ByteRange> Exchange::content_range(std::optional<std::uint64_t>& file_size) const {
  const std::string text = header("Content-Range");
  std::string_view rest = text;
  ByteRange range;
  std::uint64_t last = 0, total = 0;
  if (!take_text(rest, "bytes ") || !take_number(rest, range.begin) || !take_text(rest, "-") ||
      !take_number(rest, last) || !take_text(rest, "/") || last < range.begin)
    return {};
  if (take_number(rest, total)) file_size = total;
  range.end = last + 1;
  return range;
}

Outcome Exchange::outcome(CURLcode code, bool progress) const {
  Outcome out{.curl = code, .status = status(), .progress = progress, .authorized = authorized_};
  if (code != CURLE_OK) {
    out.detail = message_[0] != '\0' ? message_.get() : curl_easy_strerror(code);
    return out;
  }
  out.detail = header("X-Error-Message").substr(0, 300);
  curl_off_t after = 0;
  if (!header("Retry-After").empty() &&
      curl_easy_getinfo(handle_.get(), CURLINFO_RETRY_AFTER, &after) == CURLE_OK && after >= 0)
    out.wait = std::chrono::seconds(std::min<curl_off_t>(after, 1 << 30));
  else if (out.status == 429)
    out.wait = window_end(header("RateLimit"));
  return out;
}

namespace {

// Where a body goes; clear() undoes a failed attempt.
struct Body {
  std::function<void()> clear;
  std::function<void(ConstBytes)> append;
};

Document get(const Url& url, const Token& token, std::uint64_t most, const std::string& what,
             const Context& context, const Body& body) {
  Retries retries(what, kDocumentTries);
  Exchange exchange;
  for (;;) {
    Document out{.body = "", .url = url, .link = ""};
    std::exception_ptr failure;  // must not pass through libcurl
    CURLcode code = CURLE_OK;
    for (int hops = 0;; ++hops) {
      body.clear();
      std::uint64_t size = 0;
      exchange.prepare(out.url, token, {}, [&](ConstBytes bytes) -> std::size_t {
        try {
          if (bytes.size() > most - size)
            throw Error(what,
                        fmt::format("the server sends more than {}, which is not an answer to this request",
                                    exact_size(most)));
          body.append(bytes);
          size += bytes.size();
          return bytes.size();
        } catch (...) {
          failure = std::current_exception();
          return 0;
        }
      });
      set(exchange.handle(), CURLOPT_NOPROGRESS, 0L);
      set(exchange.handle(), CURLOPT_XFERINFOFUNCTION, &stop_asked);
      set(exchange.handle(), CURLOPT_XFERINFODATA, const_cast<void*>(static_cast<const void*>(&context)));
      code = curl_easy_perform(exchange.handle());
      context.check_stop();
      if (failure) std::rethrow_exception(failure);
      if (code != CURLE_OK) break;
      const std::optional<Url> next = exchange.redirect();
      if (!next) break;
      if (hops == kMostRedirects) throw Error(what, "the server redirects without end");
      out.url = *next;
    }
    if (code == CURLE_OK && exchange.status() == 200) {
      out.link = exchange.header("Link");
      return out;
    }
    std::string said;
    const auto wait = retries.next(exchange.outcome(code, false), said);
    context.progress.say(printable(said));
    pause(wait, context);
  }
}

}  // namespace

Document get_document(const Url& url, const Token& token, std::uint64_t most, const std::string& what,
                      const Context& context) {
  std::string text;
  Document out = get(
      url, token, most, what, context,
      {[&] { text.clear(); },
       [&](ConstBytes bytes) { text.append(reinterpret_cast<const char*>(bytes.data()), bytes.size()); }});
  out.body = std::move(text);
  return out;
}

File get_file(const Url& url, const Token& token, std::uint64_t most, const std::string& what,
              const Context& context) {
  File file = temporary_file(context.os);
  std::uint64_t size = 0;
  get(url, token, most, what, context,
      {[&] {
         file.truncate(0);
         size = 0;
       },
       [&](ConstBytes bytes) {
         file.write(bytes, size);
         size += bytes.size();
       }});
  return file;
}

}  // namespace planesmith::hub
