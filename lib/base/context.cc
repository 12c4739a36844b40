#include "base/context.h"

#include <signal.h>

#include "base/error.h"

namespace planesmith {

Progress& no_progress() {
  class Silent : public Progress {
    void begin(std::string_view, std::uint64_t) override {}
    void advance(std::uint64_t) override {}
    void end() override {}
    void say(std::string_view) override {}
  };
  static Silent silent;
  return silent;
}

void Stop::check() const {
  const int signal = signal_.load(std::memory_order_relaxed);
  if (signal == 0) return;
  throw Error(signal == SIGINT   ? ErrorCode::interrupted
              : signal == SIGHUP ? ErrorCode::hangup
                                 : ErrorCode::terminated,
              "", "stopped by a signal; finished work is kept, run the same command again to continue");
}

}  // namespace planesmith
