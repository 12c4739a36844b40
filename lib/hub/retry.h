// Decides after a failed request: try again after a while, or give up and say why.
#pragma once

#include <chrono>
#include <optional>
#include <string>

#include "base/error.h"

namespace planesmith::hub {

// How one HTTP exchange ended.
struct Outcome {
  int curl = 0;                                // CURLcode; 0: a whole response came
  int status = 0;                              // of the response; 0: none came
  bool progress = false;                       // new content arrived
  std::optional<std::chrono::seconds> wait{};  // what Retry-After or the rate limit's header asks for
  std::string detail{};                        // the message of libcurl or the server
  bool authorized = false;                     // a token was sent
};

// The server answered 404.
class NotFound : public Error {
 public:
  using Error::Error;
};

// Counts the attempts for one document or one range of a file.
class Retries {
 public:
  // tries: attempts without progress before giving up. what: the file, for messages.
  Retries(std::string what, int tries) : what_(std::move(what)), tries_(tries) {}

  // How long to wait before the next attempt; `said` receives a line for the user. Throws if another attempt
  // does not help: 401, 403 and 404 with advice, other refusals, certificates, and when the tries are used
  // up. Waits for a rate limit (429) up to four windows of five minutes and an hour.
  std::chrono::milliseconds next(const Outcome& outcome, std::string& said);

 private:
  [[noreturn]] void refuse(const Outcome& outcome) const;
  std::string what_;
  int tries_;
  int failures_ = 0;                 // since the last progress
  std::chrono::seconds limited_{0};  // waited for the rate limit since the last progress
};

}  // namespace planesmith::hub
