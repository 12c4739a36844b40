#include "common/progress_line.h"

#include <fmt/format.h>
#include <stdio.h>
#include <unistd.h>

#include <cmath>

#include "base/error.h"
#include "base/text.h"

namespace planesmith {
namespace {

constexpr auto kLiveInterval = std::chrono::milliseconds(200);
constexpr auto kPlainInterval = std::chrono::seconds(10);

std::string clock_text(double seconds) {
  const auto s = static_cast<std::uint64_t>(std::llround(seconds));
  return s >= 3600 ? fmt::format("{}:{:02}:{:02}", s / 3600, s / 60 % 60, s % 60)
                   : fmt::format("{}:{:02}", s / 60, s % 60);
}

}  // namespace

void message(std::string_view text) {
  fwrite(text.data(), 1, text.size(), stderr);
  fflush(stderr);
}

ProgressLine::ProgressLine(bool quiet, const std::string& mode)
    : quiet_(quiet), enabled_(!quiet && mode != "none"), live_(mode == "auto" && isatty(STDERR_FILENO)) {}

ProgressLine::~ProgressLine() {
  const std::lock_guard<std::mutex> lock(mutex_);
  wipe();
}

void ProgressLine::begin(std::string_view stage, std::uint64_t total_bytes) {
  end();
  const std::lock_guard<std::mutex> lock(mutex_);
  stage_ = stage;
  total_ = total_bytes;
  done_ = 0;
  started_ = Clock::now();
  next_show_ = (started_ + (live_ ? Clock::duration(kLiveInterval) : Clock::duration(kPlainInterval)))
                   .time_since_epoch()
                   .count();
}

void ProgressLine::advance(std::uint64_t bytes) {
  done_ += bytes;
  if (!enabled_ || Clock::now().time_since_epoch().count() < next_show_) return;
  const std::unique_lock<std::mutex> lock(mutex_, std::try_to_lock);
  if (lock.owns_lock() && Clock::now().time_since_epoch().count() >= next_show_) show(false);
}

void ProgressLine::end() {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (stage_.empty()) return;
  if (enabled_ && (live_ || Clock::now() - started_ > kPlainInterval)) show(true);
  if (line_on_screen_) message("\n");
  line_on_screen_ = false;
  stage_.clear();
}

void ProgressLine::say(std::string_view line) {
  if (quiet_) return;
  const std::lock_guard<std::mutex> lock(mutex_);
  wipe();
  message(printable(line) + "\n");
}

void ProgressLine::show(bool final) {
  if (stage_.empty()) return;
  const auto now = Clock::now();
  const double seconds = std::chrono::duration<double>(now - started_).count();
  const std::uint64_t done = done_;
  const double rate = seconds > 0 ? static_cast<double>(done) / seconds : 0;
  std::string text = printable(stage_);
  if (total_ != 0)
    text += fmt::format("  {:.0f}% of {}", 100.0 * static_cast<double>(done) / static_cast<double>(total_),
                        short_size(total_));
  else
    text += fmt::format("  {}", short_size(done));
  text += fmt::format("  {:.2f} GB/s", rate / 1e9);
  if (final)
    text += fmt::format("  in {}", clock_text(seconds));
  else if (total_ > done && rate > 0)
    text += fmt::format("  ETA {}", clock_text(static_cast<double>(total_ - done) / rate));
  if (live_) {
    message("\r\033[K" + text);
    line_on_screen_ = true;
  } else {
    message(text + "\n");
  }
  next_show_ = (now + (live_ ? Clock::duration(kLiveInterval) : Clock::duration(kPlainInterval)))
                   .time_since_epoch()
                   .count();
}

void ProgressLine::wipe() {
  if (line_on_screen_) message("\r\033[K");
  line_on_screen_ = false;
}

}  // namespace planesmith
