// What all long-running work gets: the operating system, where to report progress, a way to be stopped, and
// how much of the machine it may use. There are no globals; programs make one Context and pass it down.
#pragma once

#include <atomic>
#include <cstdint>
#include <string_view>

#include "base/os.h"
#include "base/size.h"

namespace planesmith {

// Receives progress. All members may be called from any thread.
class Progress {
 public:
  virtual ~Progress() = default;
  // A new stage; total_bytes 0: unknown.
  virtual void begin(std::string_view stage, std::uint64_t total_bytes) = 0;
  virtual void advance(std::uint64_t bytes) = 0;
  virtual void end() = 0;
  virtual void say(std::string_view line) = 0;  // a message for the user (stderr), without newline
  // A message about something that may be wrong; it also appears in the warnings of --json.
  virtual void warn(std::string_view line) { say(line); }
  virtual void begin_layers(std::uint64_t) {}  // how many layers the stage has
  virtual void layer_done() {}
};

// Discards everything.
Progress& no_progress();

// Set by a signal handler (or a test), polled between blocks of work.
class Stop {
 public:
  void request(int signal) noexcept { signal_.store(signal, std::memory_order_relaxed); }
  bool requested() const noexcept { return signal_.load(std::memory_order_relaxed) != 0; }
  // Throws Error with code hangup, interrupted or terminated (any other signal) once requested.
  void check() const;

 private:
  std::atomic<int> signal_{0};
};

struct Context {
  Os& os = posix();
  Progress& progress = no_progress();
  const Stop* stop = nullptr;  // none: cannot be stopped
  int threads = 1;
  std::uint64_t memory = 2 * kGiB;  // bytes the work may allocate for buffers
  bool group_shared = false;        // locks, records and staging are shared with the directory's group

  void check_stop() const {
    if (stop != nullptr) stop->check();
  }
};

}  // namespace planesmith
