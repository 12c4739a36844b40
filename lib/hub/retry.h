// What follows from the way a request ended: ask again after a while, or give up and say why.
#pragma once

#include <chrono>
#include <optional>
#include <string>

#include "base/error.h"

namespace planesmith::hub {

// How one HTTP exchange ended.
struct Outcome {
  int curl = 0;                                // CURLcode: 0 where a whole response came
  int status = 0;                              // of the response; 0: none came
  bool progress = false;                       // content arrived that was not there before
  std::optional<std::chrono::seconds> wait{};  // what Retry-After or the rate limit's header asks for
  std::string detail{};                        // libcurl's words, or the server's
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
  // tries: without any progress, before it gives up. what: the file, for messages.
  Retries(std::string what, int tries) : what_(std::move(what)), tries_(tries) {}

  // How long to wait before the next attempt; `said` receives a line for the user. Throws where another
  // attempt does not help: 401, 403 and 404 with advice, other refusals, certificates, and when the tries are
  // used up. A rate limit (429) is waited for through four windows of five minutes.
  std::chrono::milliseconds next(const Outcome& outcome, std::string& said);

 private:
  [[noreturn]] void refuse(const Outcome& outcome) const;
  std::string what_;
  int tries_;
  int failures_ = 0;                 // in a row, without progress
  std::chrono::seconds limited_{0};  // waited for the rate limit, in a row
};

}  // namespace planesmith::hub
