// Progress for people: a live line on a terminal, a plain line now and then elsewhere, always on stderr.
#pragma once

#include <atomic>
#include <chrono>
#include <mutex>
#include <string>
#include <string_view>

#include "base/context.h"

namespace planesmith {

// Text to standard error. Where nobody can be told, the work goes on.
void message(std::string_view text);

class ProgressLine : public Progress {
 public:
  ProgressLine(bool quiet, const std::string& mode);  // mode: auto, plain, none
  ~ProgressLine() override;
  void begin(std::string_view stage, std::uint64_t total_bytes) override;
  void advance(std::uint64_t bytes) override;
  void end() override;
  void say(std::string_view line) override;

 private:
  using Clock = std::chrono::steady_clock;
  void show(bool final);  // mutex held
  void wipe();            // mutex held
  const bool quiet_;
  bool enabled_, live_;
  std::mutex mutex_;
  std::string stage_;  // empty: no stage is running
  std::uint64_t total_ = 0;
  std::atomic<std::uint64_t> done_{0};
  std::atomic<std::int64_t> next_show_{0};  // Clock ticks
  Clock::time_point started_;
  bool line_on_screen_ = false;
};

}  // namespace planesmith
