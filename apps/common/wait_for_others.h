// --wait: waits for layers that another run is writing, and writes those that it leaves unfinished.
#pragma once

#include <algorithm>
#include <chrono>
#include <mutex>
#include <set>
#include <string>
#include <thread>

#include "base/context.h"

namespace planesmith {

// Forwards progress, but each message only once, since every round of waiting meets the same layers.
class SaysOnce : public Progress {
 public:
  explicit SaysOnce(Progress& progress) : progress_(progress) {}
  void begin(std::string_view stage, std::uint64_t bytes) override { progress_.begin(stage, bytes); }
  void advance(std::uint64_t bytes) override { progress_.advance(bytes); }
  void end() override { progress_.end(); }
  void begin_layers(std::uint64_t count) override { progress_.begin_layers(count); }
  void layer_done() override { progress_.layer_done(); }
  void say(std::string_view line) override {
    if (first(line)) progress_.say(line);
  }
  void warn(std::string_view line) override {
    if (first(line)) progress_.warn(line);
  }

 private:
  bool first(std::string_view line) {
    const std::lock_guard<std::mutex> lock(mutex_);
    return said_.emplace(line).second;
  }
  Progress& progress_;
  std::mutex mutex_;
  std::set<std::string> said_;
};

// Runs round(context, again) once; with `wait` repeatedly, until no layer is left to another run. The counts
// of the returned report cover all rounds.
template <typename Round>
auto until_others_are_done(const Context& context, bool wait, Round round) {
  SaysOnce progress(context.progress);
  const Context each{context.os,      progress,       context.stop,
                     context.threads, context.memory, context.group_shared};
  auto report = round(each, false);
  auto pause = std::chrono::milliseconds(100);
  while (wait && report.elsewhere != 0) {
    context.check_stop();
    std::this_thread::sleep_for(pause);
    pause =
        std::min(2 * pause, std::chrono::milliseconds(1000));  // so that a signal is answered within a second
    const auto next = round(each, true);
    report.finished = next.finished - std::min(next.finished, report.converted);
    report.converted += next.converted;
    report.elsewhere = next.elsewhere;
    report.complete = next.complete;
  }
  return report;
}

}  // namespace planesmith
