#include "hub/retry.h"

#include <curl/curl.h>
#include <fmt/format.h>

#include <algorithm>

namespace planesmith::hub {
namespace {

using std::chrono::seconds;

// The hub counts requests in windows of five minutes.
constexpr seconds kWindow{300}, kLongestBackoff{30}, kLongestWait{3600};

std::string reason_of(const Outcome& outcome) {
  if (outcome.curl != CURLE_OK)
    return outcome.detail.empty() ? curl_easy_strerror(static_cast<CURLcode>(outcome.curl)) : outcome.detail;
  return fmt::format("the server answers {}{}{}", outcome.status, outcome.detail.empty() ? "" : ": ",
                     outcome.detail);
}

bool is_final(int curl) {
  switch (curl) {
    case CURLE_UNSUPPORTED_PROTOCOL:
    case CURLE_URL_MALFORMAT:
    case CURLE_PEER_FAILED_VERIFICATION:
    case CURLE_SSL_CACERT_BADFILE:
    case CURLE_SSL_CERTPROBLEM:
    case CURLE_OUT_OF_MEMORY:
      return true;
    default:
      return false;
  }
}

}  // namespace

void Retries::refuse(const Outcome& outcome) const {
  const auto with = [&](const char* advice) { return fmt::format("{}: {}", reason_of(outcome), advice); };
  if (outcome.status == 404)
    throw NotFound(what_,
                   with("there is no such repository, revision or file; check the spelling, and HF_TOKEN "
                        "if it is private"));
  if (outcome.status != 401 && outcome.status != 403) throw Error(what_, reason_of(outcome));
  throw Error(what_,
              outcome.authorized
                  ? with("the token may not read it. Is the repository gated (accept its terms on its "
                         "page), or has the token expired?")
                  : with("it is private, gated or not there; set HF_TOKEN to a token that may read it, "
                         "or run hf auth login"));
}

std::chrono::milliseconds Retries::next(const Outcome& outcome, std::string& said) {
  if (outcome.progress) {
    failures_ = 0;
    limited_ = seconds{0};
  }
  const bool limited = outcome.curl == CURLE_OK && outcome.status == 429;
  if (outcome.curl == CURLE_OK && outcome.status >= 400 && outcome.status < 500 && !limited &&
      outcome.status != 408 && outcome.status != 425)
    refuse(outcome);
  if (is_final(outcome.curl)) throw Error(what_, reason_of(outcome));
  if (outcome.wait && *outcome.wait > kLongestWait)
    throw Error(what_, fmt::format("{}: it asks to wait {} s; run the same command again after that",
                                   reason_of(outcome), outcome.wait->count()));
  const seconds backoff = std::min(seconds{1 << std::min(failures_, 10)}, kLongestBackoff);
  seconds wait = outcome.wait.value_or(limited ? std::max(backoff, seconds{5}) : backoff);
  if (limited) {
    // Retry-After: 0 would mean to ask again at once, without end.
    wait = std::max(wait, seconds{1});
    limited_ += wait;
    if (limited_ > 4 * kWindow + kLongestWait)
      throw Error(what_, fmt::format("{}: the rate limit did not end within {} minutes; run the same command "
                                     "again later",
                                     reason_of(outcome),
                                     std::chrono::duration_cast<std::chrono::minutes>(limited_).count()));
    said = fmt::format("{}: {}: the rate limit is reached, continuing in {} s", what_, reason_of(outcome),
                       wait.count());
    return wait;
  }
  if (++failures_ >= tries_)
    throw Error(what_, fmt::format("{}; gave up after {} attempts without progress. The same command "
                                   "continues from here",
                                   reason_of(outcome), failures_));
  said = fmt::format("{}: {}; trying again in {} s", what_, reason_of(outcome), wait.count());
  return wait;
}

}  // namespace planesmith::hub
