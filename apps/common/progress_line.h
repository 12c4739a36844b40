// Progress on stderr: a live line on a terminal, otherwise a plain line from time to time.
#pragma once

#include <atomic>
#include <chrono>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "base/context.h"

namespace planesmith {

// Writes text to stderr and ignores failure.
void message(std::string_view text);

// "1:03:20", "0:07"
std::string clock_text(double seconds);

class ProgressLine : public Progress {
 public:
  ProgressLine(bool quiet, bool verbose, const std::string& mode);  // mode: auto, plain, none
  ~ProgressLine() override;
  void begin(std::string_view stage, std::uint64_t total_bytes) override;
  void advance(std::uint64_t bytes) override;
  void end() override;
  void say(std::string_view line) override;
  void warn(std::string_view line) override;
  void begin_layers(std::uint64_t count) override { layers_ = count; }
  void layer_done() override { ++layers_done_; }

  bool had_stages() const { return had_stages_; }
  std::vector<std::string> warnings() const { return warnings_; }

 private:
  using Clock = std::chrono::steady_clock;
  void show(bool final);  // mutex held
  std::vector<std::string> fields(bool final, Clock::time_point now) const;
  void wipe();  // mutex held
  const bool quiet_, verbose_;
  bool enabled_, live_;
  std::mutex mutex_;
  std::string stage_;  // empty: no stage is running
  std::uint64_t total_ = 0;
  // Every thread changes it all the time, and reads what follows: they are on different cache lines.
  alignas(64) std::atomic<std::uint64_t> done_{0};
  alignas(64) std::atomic<std::uint64_t> layers_{0}, layers_done_{0};
  std::atomic<std::int64_t> next_show_{0};  // Clock ticks
  Clock::time_point started_;
  bool line_on_screen_ = false, had_stages_ = false;
  std::vector<std::string> warnings_;
};

}  // namespace planesmith
