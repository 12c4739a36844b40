// One HTTP request and its response, on a libcurl easy handle, without retries.
#pragma once

#include <curl/curl.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "base/context.h"
#include "base/file.h"
#include "hub/retry.h"
#include "hub/token.h"
#include "hub/url.h"

namespace planesmith::hub {

inline constexpr int kMostRedirects = 10;

// Bytes [begin, end) of a file.
struct ByteRange {
  std::uint64_t begin = 0, end = 0;
};

class Exchange {
 public:
  // Takes bytes of the body; returns how many, fewer to end the transfer,
  // or CURL_WRITEFUNC_PAUSE to get them again later. Must not throw.
  using Take = std::function<std::size_t(ConstBytes)>;

  Exchange();
  // Prepares a GET, with the token if the URL has its origin. fresh: on a new connection.
  void prepare(const Url& url, const Token& token, std::optional<ByteRange> range, Take take,
               bool fresh = false);
  CURL* handle() const { return handle_.get(); }
  const Url& url() const { return url_; }

  int status() const;
  std::string header(const char* name) const;  // of the response; empty if absent
  // The target of a redirect; none: the response is not a redirect. Errors: those of Url::resolve().
  std::optional<Url> redirect() const;
  // The range that the response holds, and the size of the file if the response has it.
  std::optional<ByteRange> content_range(std::optional<std::uint64_t>& file_size) const;
  Outcome outcome(CURLcode code, bool progress) const;

 private:
  static std::size_t write(char* data, std::size_t size, std::size_t count, void* self);
  static std::size_t count_header(char* data, std::size_t size, std::size_t count, void* self);
  std::unique_ptr<CURL, decltype(&curl_easy_cleanup)> handle_;
  std::unique_ptr<curl_slist, decltype(&curl_slist_free_all)> headers_{nullptr, &curl_slist_free_all};
  std::unique_ptr<char[]> message_;
  Url url_;
  Take take_;
  std::size_t header_bytes_ = 0;
  bool authorized_ = false;
};

struct Document {
  std::string body;
  Url url;           // where it came from, after redirects
  std::string link;  // its Link header
};

// Reads a whole small document, following redirects and retrying. Errors:
// more than `most` bytes, and those of Retries, which name `what`.
Document get_document(const Url& url, const Token& token, std::uint64_t most, const std::string& what,
                      const Context& context);
// The same into a temporary_file().
File get_file(const Url& url, const Token& token, std::uint64_t most, const std::string& what,
              const Context& context);

}  // namespace planesmith::hub
