#include "hub/url.h"

#include <curl/curl.h>
#include <fmt/format.h>

#include <memory>

#include "base/error.h"

namespace planesmith::hub {
namespace {

constexpr std::size_t kMostBytes = 64 << 10;

using Handle = std::unique_ptr<CURLU, decltype(&curl_url_cleanup)>;

// A part of the URL; empty if absent.
std::string part(CURLU* url, CURLUPart what, unsigned flags = 0) {
  char* text = nullptr;
  if (curl_url_get(url, what, &text, flags) != CURLUE_OK) return "";
  const std::unique_ptr<char, decltype(&curl_free)> owned(text, &curl_free);
  return text;
}

void set(CURLU* url, std::string_view text) {
  const std::string copy(text);
  const auto refuse = [&](const char* why) { throw Error(copy.substr(0, 200), why); };
  if (copy.size() > kMostBytes) refuse("is too long for a URL");
  for (const char c : copy)
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7F) refuse("has control characters and is not a URL");
  if (const CURLUcode code = curl_url_set(url, CURLUPART_URL, copy.c_str(), CURLU_URLENCODE);
      code != CURLUE_OK)
    refuse(code == CURLUE_UNSUPPORTED_SCHEME ? "is neither an http nor an https URL" : "is not a URL");
}

}  // namespace

std::string Url::shown() const {
  return text_.substr(0, text_.find('?'));
}

namespace {

// What every URL must satisfy, given or redirected.
void require_plain(CURLU* url, const std::string& text) {
  const std::string scheme = part(url, CURLUPART_SCHEME);
  if (scheme != "http" && scheme != "https")
    throw Error(text.substr(0, 200), "is neither an http nor an https URL");
  if (!part(url, CURLUPART_USER).empty() || !part(url, CURLUPART_PASSWORD).empty())
    throw Error("a URL with a user name or password is refused, because messages would show it");
}

}  // namespace

Url Url::parse(std::string_view text) {
  const Handle url(curl_url(), &curl_url_cleanup);
  set(url.get(), text);
  Url out;
  out.text_ = part(url.get(), CURLUPART_URL);
  require_plain(url.get(), out.text_);
  curl_url_set(url.get(), CURLUPART_FRAGMENT, nullptr, 0);
  out.text_ = part(url.get(), CURLUPART_URL);
  out.origin_ = fmt::format("{}://{}:{}", part(url.get(), CURLUPART_SCHEME), part(url.get(), CURLUPART_HOST),
                            part(url.get(), CURLUPART_PORT, CURLU_DEFAULT_PORT));
  for (char& c : out.origin_)
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  const std::string query = part(url.get(), CURLUPART_QUERY);
  out.path_ = part(url.get(), CURLUPART_PATH) + (query.empty() ? "" : "?" + query);
  return out;
}

Url Url::resolve(std::string_view reference) const {
  const Handle url(curl_url(), &curl_url_cleanup);
  set(url.get(), text_);
  set(url.get(), reference);
  return parse(part(url.get(), CURLUPART_URL));
}

std::string encode_path(std::string_view path) {
  std::string out;
  for (const char c : path) {
    const bool plain = (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') ||
                       std::string_view("-._~/").find(c) != std::string_view::npos;
    if (plain)
      out += c;
    else
      out += fmt::format("%{:02X}", static_cast<unsigned char>(c));
  }
  return out;
}

std::string encode(std::string_view text) {
  std::string out;
  for (const char c : encode_path(text)) {
    if (c == '/')
      out += "%2F";
    else
      out += c;
  }
  return out;
}

}  // namespace planesmith::hub
