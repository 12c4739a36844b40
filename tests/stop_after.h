// Stops a run midway.
#pragma once

#include <signal.h>

#include <atomic>
#include <cstdint>
#include <string_view>

#include "base/context.h"

// Asks to stop (SIGTERM) once the progress has counted so many bytes, on any thread.
class StopAfter : public planesmith::Progress {
 public:
  StopAfter(planesmith::Stop& stop, std::uint64_t bytes)
      : stop_(stop), left_(static_cast<std::int64_t>(bytes)) {}
  void begin(std::string_view, std::uint64_t) override {}
  void advance(std::uint64_t bytes) override {
    if ((left_ -= static_cast<std::int64_t>(bytes)) <= 0) stop_.request(SIGTERM);
  }
  void end() override {}
  void say(std::string_view) override {}

 private:
  planesmith::Stop& stop_;
  std::atomic<std::int64_t> left_;
};
